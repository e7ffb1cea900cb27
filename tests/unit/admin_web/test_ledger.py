"""The ledger as a page: counts, faults and reasons per job, computed behind the page."""

import threading
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from tests.support.console import Clock, Visit, signed_in
from tests.support.eventually import eventually
from warren.admin_web.pages import ledger
from warren.admin_web.pages.ledger import CachedTally, TallyCache, TallyKey
from warren.sql.engine import Database
from warren.sql.models import History, Job, Run, SkippedTicks, Uptime
from warren.sql.registry import apps

MINUTE = 60_000
DAY = 86_400_000
#: 2027-01-15 00:00 UTC; the clock of these tests stands at 08:00.
MIDNIGHT = 1_799_971_200_000


class Books:
    """Jobs that come due every minute, with rows as a test wants them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._run_id = 0

    def job(
        self, name: str, *, until_ms: int, app: str = "reports", has_schedule: bool = True
    ) -> int:
        """Make a job that has been enabled since two days before midnight, or never was."""

        def unit(session: Any) -> int:
            job = Job(
                app_id=apps.find(session, app).id,
                name=name,
                schedule_kind="FIX_RATE",
                schedule_value="60",
                is_enabled=1,
                last_tick_at=until_ms,
            )
            session.add(job)
            session.flush()
            if not has_schedule:
                return int(job.id)
            session.add(
                History(
                    job_id=job.id,
                    changed_at=0,
                    changed_by="test",
                    watermark=MIDNIGHT - 2 * DAY - 1,
                    enabled=1,
                    schedule_kind="FIX_RATE",
                    schedule_value="60",
                    timezone="",
                    misfire="DO_NOTHING",
                    anchor=MIDNIGHT,
                )
            )
            return int(job.id)

        return self._database.write(unit)

    def fire(self, job_id: int, *ticks: int, origin_id: int = 0) -> None:
        """Give ticks a run that succeeded."""

        def unit(session: Any) -> None:
            for tick in ticks:
                self._run_id += 1
                session.add(
                    Run(
                        id=self._run_id,
                        app_id=1,
                        job_id=job_id,
                        status="SUCCEEDED",
                        kind="CRON",
                        scheduled_at=tick,
                        due_at=tick,
                        origin_id=origin_id,
                    )
                )

        self._database.write(unit)

    def skip(self, job_id: int, from_ms: int, to_ms: int, reason: str) -> None:
        """Record that the ticks of a stretch were skipped."""
        count = (to_ms - from_ms) // MINUTE + 1
        row = SkippedTicks(
            job_id=job_id,
            from_at=from_ms,
            to_at=to_ms,
            count=count,
            reason=reason,
            recorded_at=to_ms,
        )
        self._database.write(lambda session: session.add(row))


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


def minutes(start: int, count: int) -> list[int]:
    return [start + number * MINUTE for number in range(count)]


def settled(visit: Visit, path: str) -> str:
    """Return the page once everything on it is computed."""

    def look() -> str:
        page = visit.get(path).text
        return "" if "Checking" in page else page

    return eventually(look, every=0.02)


def cells(page: str) -> list[str]:
    """Return the figures of the first job: due, fired, skipped, cancelled, cleared."""
    row = page[page.index("<tbody>") : page.index("</tr>", page.index("<tbody>"))]
    parts = row.split('class="number-cell">')[1:]
    return [part.split("</td>")[0].split("</summary>")[0].rsplit(">", 1)[-1] for part in parts]


class TestFigures:
    def test_sound_job_is_due_as_often_as_it_fired_and_was_skipped(
        self, admin: Visit, books: Books
    ) -> None:
        job_id = books.job("good", until_ms=MIDNIGHT + 9 * MINUTE)
        books.fire(job_id, *minutes(MIDNIGHT, 6))
        books.skip(job_id, MIDNIGHT + 6 * MINUTE, MIDNIGHT + 9 * MINUTE, "missed <b>while</b> away")

        page = settled(admin, "/ledger")

        assert cells(page) == ["10", "6", "4", "0", "0"]
        assert "OK</span>" in page
        skipped = page.partition("missed &lt;b&gt;while&lt;/b&gt; away")[2].partition("</li>")[0]
        assert "2027-01-15 00:06:00" in skipped
        assert "2027-01-15 00:09:00" in skipped

    def test_several_jobs_have_a_total(self, admin: Visit, books: Books) -> None:
        for name in ("one", "two"):
            job_id = books.job(name, until_ms=MIDNIGHT + 2 * MINUTE)
            books.fire(job_id, *minutes(MIDNIGHT, 3))

        total = settled(admin, "/ledger").partition("Total for this page")[2].partition("</tr>")[0]

        assert 'data-label="Due" class="number-cell">6</td>' in total
        assert 'data-label="Fired" class="number-cell">6</td>' in total
        assert "OK" in total

    def test_job_without_a_schedule_has_nothing_due(self, admin: Visit, books: Books) -> None:
        books.job("by-hand", until_ms=0, has_schedule=False)

        page = settled(admin, "/ledger")

        assert "The check failed" not in page
        assert cells(page) == ["0", "0", "0", "0", "0"]

    def test_lost_and_doubled_ticks_are_named(self, admin: Visit, books: Books) -> None:
        job_id = books.job("bad", until_ms=MIDNIGHT + 4 * MINUTE)
        books.fire(job_id, *minutes(MIDNIGHT, 4), MIDNIGHT + 4 * MINUTE - 1)

        page = settled(admin, "/ledger")

        assert "1 lost</span>" in page
        assert "1 duplicated</span>" in page
        assert "2027-01-15 00:04:00" in page
        assert "OK</span>" not in page

    def test_ticks_that_ran_although_they_were_to_be_skipped_are_named(
        self, admin: Visit, books: Books, database: Database
    ) -> None:
        job_id = books.job("tardy", until_ms=MIDNIGHT)
        books.fire(job_id, MIDNIGHT)
        back_ms = MIDNIGHT + 8 * MINUTE
        with_late_start = {Run.routed_at: back_ms + 1, Run.started_at: back_ms + 2}
        uptime = Uptime(down_since=MIDNIGHT - 1, since_at=back_ms, until_at=back_ms, is_settled=1)

        def unit(session: Any) -> None:
            session.execute(update(Run).values(with_late_start))
            session.add(uptime)

        database.write(unit)

        page = settled(admin, "/ledger")

        assert "1 late</span>" in page
        assert "2027-01-15 00:00:00" in page
        assert "OK</span>" not in page

    def test_range_of_several_days_is_the_sum_of_its_stretches(
        self, admin: Visit, books: Books
    ) -> None:
        job_id = books.job("long", until_ms=MIDNIGHT)
        books.fire(job_id, *minutes(MIDNIGHT - DAY, 1441))

        assert cells(settled(admin, "/ledger"))[:2] == ["1", "1"]
        week = settled(admin, "/ledger?range=7")
        assert cells(week)[:2] == [str(2 * 1440 + 1), "1441"]
        assert "1440 lost</span>" in week
        custom = "/ledger?range=custom&since=2027-01-14&until=2027-01-14"
        assert cells(settled(admin, custom))[:2] == ["1440", "1440"]


class TestPage:
    def test_first_look_answers_at_once_and_looks_again_by_itself(
        self, admin: Visit, books: Books, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        may_go_on = threading.Event()
        audit = ledger.audit_job
        monkeypatch.setattr(ledger, "audit_job", lambda *args: may_go_on.wait(60) and audit(*args))
        books.job("slow", until_ms=MIDNIGHT - 1)

        page = admin.get("/ledger").text

        assert "Checking" in page
        assert 'data-live="2"' in page
        may_go_on.set()
        assert "data-live" not in settled(admin, "/ledger")

    def test_others_jobs_do_not_exist(self, app: Flask, books: Books) -> None:
        books.job("ours", until_ms=MIDNIGHT - 1)
        books.job("theirs", until_ms=MIDNIGHT - 1, app="mails")

        page = signed_in(app, "viewer").get("/ledger").text

        assert "ours</strong>" in page
        assert "theirs" not in page
        assert "No matching jobs." in signed_in(app, "viewer").get("/ledger?app=mails").text

    def test_long_list_goes_on_by_id_and_keeps_its_filter(self, admin: Visit, books: Books) -> None:
        ids = [books.job(f"job-{number:02}", until_ms=MIDNIGHT - 1) for number in range(23)]

        first = admin.get("/ledger?range=7&name=job").text

        assert f"after={ids[19]}" in first
        assert "name=job" in first
        assert "job-20" not in first
        assert "job-20" in admin.get(f"/ledger?range=7&name=job&after={ids[19]}").text

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("range=never", "field-error"),
            ("range=custom", "Choose a date."),
            ("range=custom&since=2027-01-01", "Choose a date."),
            ("range=custom&since=x&until=2027-01-01", "Enter a date like 2026-01-31."),
            ("range=custom&since=2027-01-02&until=2027-01-01", "Choose a range of 1 to 31 days."),
            ("range=custom&since=2027-01-01&until=2027-02-01", "Choose a range of 1 to 31 days."),
            ("range=custom&since=0001-01-01&until=0001-01-02", "Choose a date."),
            ("range=custom&since=2027-06-01&until=2027-06-02", "Choose a date."),
            ("range=custom&since=9999-12-31&until=9999-12-31", "Choose a date."),
        ],
    )
    def test_bad_range_is_told_beside_its_field(self, admin: Visit, query: str, words: str) -> None:
        answer = admin.get(f"/ledger?{query}")

        assert answer.status_code == 422
        assert words in answer.text

    def test_job_that_cannot_be_computed_leaves_the_others(
        self, admin: Visit, books: Books, database: Database
    ) -> None:
        broken = books.job("broken", until_ms=MIDNIGHT)
        books.job("good", until_ms=MIDNIGHT - 2 * DAY)

        def spoil(session: Any) -> None:
            found = session.query(History).filter(History.job_id == broken).one()
            found.schedule_value = "never"

        database.write(spoil)

        page = settled(admin, "/ledger")

        assert "The check failed" in page
        assert "OK</span>" in page


class TestDesk:
    def ask(self, desk: TallyCache, question: TallyKey) -> CachedTally | None:
        return desk.ask([question])[question]

    def test_answer_is_kept_until_it_is_old(
        self, database: Database, books: Books, clock: Clock
    ) -> None:
        question = TallyKey(books.job("one", until_ms=MIDNIGHT), MIDNIGHT - 1, None)
        desk = TallyCache(database, clock.now_ms, lambda: "UTC")
        first = eventually(lambda: self.ask(desk, question))

        clock.pass_seconds(30)
        assert self.ask(desk, question) is first
        clock.pass_seconds(60)
        assert self.ask(desk, question) is first
        eventually(lambda: self.ask(desk, question) is not first)

    @pytest.mark.parametrize("limits", [{"kept": 10}, {"waiting": 10}])
    def test_what_is_kept_and_waited_for_is_bounded(
        self, database: Database, clock: Clock, limits: dict[str, int]
    ) -> None:
        questions = [TallyKey(number, MIDNIGHT, None) for number in range(1, 50)]
        desk = TallyCache(database, clock.now_ms, lambda: "UTC", **limits)

        desk.ask(questions)

        eventually(lambda: self.ask(desk, questions[-1]))
        known = [question for question, answer in desk.ask(questions).items() if answer]
        assert known == questions[-10:]
