"""XXL-JOB's rows arrive as apps, jobs and users; what cannot be the same is named."""

import json
import stat
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tests.integration.warren.importing.conftest import ImportCase
from tests.support.acting import NamedCommands
from tests.support.xxl_job_tables import VERSIONS
from warren.broker.stored_reasons import from_json
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.jobs.records import job_spec
from warren.scheduler.retention.reporter import Reporter
from warren.sql.accounts import audit_log, users
from warren.sql.accounts.audit_log import AuditFilter
from warren.sql.ids import take_block
from warren.sql.instants import DAY_MS
from warren.sql.jobs import job_links, script_versions
from warren.sql.models import App, DayReport, ImportOrigin, Job, Model, User
from warren.sql.run_status import Kind, RunStatus

#: Tests of what each database does in its own way.
both = pytest.mark.both("ids that rows bring with them, unique names, and sequences")

#: Eight in the morning in Shanghai.
MIDNIGHT = datetime.fromisoformat("2024-03-01 00:00:00")


def counts(case: ImportCase) -> dict[str, int]:
    """Return how many rows each table has."""
    return case.rows.database.read(
        lambda session: {
            name: session.execute(select(func.count()).select_from(table)).scalar_one()
            for name, table in Model.metadata.tables.items()
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_job_of_each_version_arrives_with_its_id(
    make_case: Callable[[str], ImportCase], version: str
) -> None:
    case = make_case(version)
    case.xxl.group("Shop_Jobs", id=7, title="Shop")
    case.xxl.job(
        "a/b",
        id=42,
        job_group=7,
        schedule_conf="0 30 3 ? * MON",
        executor_route_strategy="ROUND",
        executor_param="p=1",
        executor_timeout=30,
        executor_fail_retry_count=2,
        alarm_email="ops@example.com, nobody",
        add_time="2024-03-01 08:00:00",
    )

    found = case.findings()

    app, job = case.app(7), case.job(42)
    assert (app.name, app.title) == ("shop-jobs", "Shop")
    assert (job.app_id, job.name, job.author) == (7, "a_b", "olga")
    assert (job.schedule_kind, job.schedule_value, job.timezone) == (
        "CRON",
        "0 30 3 ? * MON",
        "Asia/Shanghai",
    )
    assert (job.handler, job.param, job.route) == ("nightlyHandler", "p=1", "ROUND")
    assert (job.timeout, job.retries, job.alarm_email) == (30, 2, "ops@example.com")
    assert job.add_time == MIDNIGHT
    assert (job.is_enabled, job.stop_reason) == (0, None)
    told = {
        (one["verdict"], one["column"], one["value"]) for one in found if one["type"] == "finding"
    }
    assert told == {
        ("differs", "app_name", "Shop_Jobs"),
        ("differs", "name", "a/b"),
        ("left out", "alarm_email", "nobody"),
    }


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ({"schedule_conf": "0 0 0 1 1 ? 2020"}, "schedule_conf"),
        ({"schedule_conf": "whenever"}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "0"}, "schedule_conf"),
        ({"schedule_type": "FIX_DELAY", "schedule_conf": "60"}, "schedule_type"),
        ({"executor_route_strategy": "NEAREST"}, "executor_route_strategy"),
        ({"executor_block_strategy": "CONCURRENT"}, "executor_block_strategy"),
        ({"executor_handler": ""}, "executor_handler"),
        ({"glue_type": "GLUE_PYTHON2", "glue_source": "print 1"}, "glue_type"),
        ({"glue_type": "GLUE_RUBY", "glue_source": "puts 1"}, "glue_source"),
        ({"glue_type": "GLUE_SHELL", "glue_source": "x" * 524_289}, "glue_source"),
        ({"glue_type": "GLUE_SHELL", "glue_source": None}, "glue_source"),
    ],
)
def test_what_cannot_be_the_same_stays_stopped_and_says_why(
    make_case: Callable[[str], ImportCase], values: dict[str, object], column: str
) -> None:
    case = make_case("3.4.0")
    case.xxl.group()
    job_id = case.xxl.job(trigger_status=1, **values)

    found = case.findings()

    [stopped] = [one for one in found if one.get("verdict") == "stopped"]
    assert (stopped["table"], stopped["id"], stopped["column"]) == ("xxl_job_info", job_id, column)
    job = case.job(job_id)
    assert job.is_enabled == 0
    assert job.stop_reason == f"not fully imported: {column}: {stopped['words']}"
    assert str(from_json(job.stop_why)) == job.stop_reason  # so that a page can translate it


def test_too_many_retries_are_cut_and_named(case: ImportCase) -> None:
    case.xxl.group()
    job_id = case.xxl.job(executor_fail_retry_count=5_000, executor_timeout=-1)

    said = case.run()

    job = case.job(job_id)
    assert (job.retries, job.timeout, job.stop_reason) == (1_000, 0, None)
    assert "executor_fail_retry_count '5000': it is 1000 here" in said


@both
def test_script_arrives_with_its_versions(case: ImportCase) -> None:
    case.xxl.group()
    job_id = case.xxl.job(
        glue_type="GLUE_SHELL", glue_source="echo 40\r\n", glue_remark="latest", executor_handler=""
    )
    for number in range(41):
        case.xxl.add(
            "logglue",
            job_id=job_id,
            glue_type="GLUE_SHELL",
            glue_source=f"echo {number}\r\n",
            glue_remark=f"number {number}",
            add_time="2024-03-01 08:00:00",
        )

    case.run()

    listed = case.rows.database.read(lambda session: script_versions.versions(session, job_id))
    assert [one.remark for one in listed] == ["latest"] + [
        f"number {number}" for number in range(39, 10, -1)
    ]
    assert [one.number for one in listed] == list(range(30, 0, -1))
    assert {one.author for one in listed} == {"xxl-job"}
    assert listed[1].add_time == MIDNIGHT
    assert case.job(job_id).script_version == listed[0].id


@both
def test_names_that_are_taken_get_their_id(case: ImportCase) -> None:
    case.xxl.group()
    first, second, third = (case.xxl.job("same") for _ in range(3))
    case.rows.job("same", "shop-jobs", id=900)

    case.run()

    names = [case.job(job_id).name for job_id in (first, second, third)]
    assert names == [f"same #{first}", f"same #{second}", f"same #{third}"]


@both
def test_taken_ids_are_mapped_and_children_follow(case: ImportCase) -> None:
    for number, app in enumerate(("a-first", "b-second"), 1):
        case.rows.job("ours", app, id=number)
    case.xxl.group("third-app", id=1)
    case.xxl.group("fourth-app", id=5)
    case.xxl.job("parent", id=1, child_jobid="2,3")
    case.xxl.job("child", id=2)
    case.xxl.job("elsewhere", id=3, job_group=5)

    said = case.run()

    ids = {
        job.name: job.id
        for job in case.rows.database.read(
            lambda session: session.execute(select(Job)).scalars().all()
        )
        if job.name != "ours"
    }
    assert ids["elsewhere"] == 3
    assert not {ids["parent"], ids["child"]} & {1, 2, 3}
    assert f"job third-app/parent: its id 1 is {ids['parent']} here" in said
    children = case.rows.database.read(
        lambda session: job_links.children_of(session, ids["parent"])
    )
    assert children == (ids["child"], 3)


def test_circle_is_cut_and_its_jobs_are_stopped(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job("a", id=1, child_jobid="2,99,x")
    case.xxl.job("b", id=2, child_jobid="3")
    case.xxl.job("c", id=3, child_jobid="1")
    case.xxl.job("d", id=4, child_jobid="4")
    case.xxl.job("e", id=5, child_jobid="1")

    found = case.findings()

    children = case.rows.database.read(lambda session: job_links.children(session, range(1, 6)))
    assert children == {1: (2,), 2: (3,), 5: (1,)}
    stopped = [one["id"] for one in found if one.get("verdict") == "stopped"]
    assert sorted(stopped) == [1, 2, 3, 4]
    assert case.job(3).stop_reason.endswith("it was part of the cycle 3 -> 1 -> 2 -> 3")
    dropped = [one["value"] for one in found if one.get("column") == "child_jobid"]
    assert {"99", "x"} <= set(dropped)


@both
def test_second_import_changes_nothing(case: ImportCase) -> None:
    case.xxl.group()
    parent = case.xxl.job("parent", child_jobid="2")
    case.xxl.job("child", id=2, glue_type="GLUE_SHELL", glue_source="date", executor_handler="")
    case.xxl.add("user", username="olga", password="x", role=0, permission="1")
    case.run()
    before = counts(case), case.job(parent).update_time

    outcomes = case.outcomes()

    assert set(outcomes.values()) == {"unchanged"}
    assert (counts(case), case.job(parent).update_time) == before


class TestEdits:
    @pytest.fixture
    def imported(self, case: ImportCase) -> ImportCase:
        case.xxl.group(id=1)
        for number in range(1, 6):
            case.xxl.job(f"job-{number}", id=number)
        case.run()
        return case

    def edit_there(self, case: ImportCase, job_id: int, **values: object) -> None:
        for name, value in values.items():
            case.xxl.execute(f"UPDATE xxl_job_info SET {name} = %s WHERE id = %s", (value, job_id))

    def edit_here(self, case: ImportCase, job_id: int, **values: object) -> None:
        def unit(session: object) -> None:
            job = session.get_one(Job, job_id)  # type: ignore[attr-defined]
            for name, value in values.items():
                setattr(job, name, value)

        case.rows.database.write(unit)

    def delete_here(self, case: ImportCase, job_id: int) -> None:
        case.rows.database.write(lambda session: session.delete(session.get_one(Job, job_id)))

    def test_edit_there_arrives(self, imported: ImportCase) -> None:
        self.edit_there(imported, 1, schedule_conf="0 0 5 * * ?", child_jobid="2")

        outcomes = imported.outcomes()

        assert outcomes["job shop-jobs/job-1"] == "update"
        assert imported.job(1).schedule_value == "0 0 5 * * ?"
        assert imported.rows.database.read(lambda session: job_links.children_of(session, 1)) == (
            2,
        )
        assert set(imported.outcomes().values()) == {"unchanged"}

    def test_child_that_arrives_later_is_not_missed_for_earlier_runs(
        self, imported: ImportCase
    ) -> None:
        ended_at = int(datetime.now(UTC).timestamp() * 1_000) - 60_000
        times = {"routed_at": ended_at, "finished_at": ended_at}
        imported.rows.run(
            1,
            ended_at,
            "shop-jobs",
            kind=Kind.MANUAL,
            origin_id=None,
            status=RunStatus.SUCCEEDED,
            **times,
        )
        self.edit_here(imported, 1, update_time=MIDNIGHT)
        self.edit_there(imported, 1, child_jobid="2")

        imported.run()

        assert imported.rows.database.read(lambda session: job_links.children_of(session, 1))
        report = audit(imported.rows.database, since_ms=0, until_ms=2**53, timezone="UTC")
        assert report.is_sound

    def test_edit_here_stays(self, imported: ImportCase) -> None:
        self.edit_here(imported, 2, timeout=99)

        assert set(imported.outcomes().values()) == {"unchanged"}
        assert imported.job(2).timeout == 99

    def test_edits_on_both_sides_are_a_conflict_until_one_is_to_win(
        self, imported: ImportCase
    ) -> None:
        self.edit_there(imported, 3, executor_timeout=11)
        self.edit_here(imported, 3, timeout=99)

        said = imported.run("--dry-run")
        assert "job-3: it was changed on both sides; the version here is kept: timeout\n" in said
        assert imported.outcomes()["job shop-jobs/job-3"] == "conflict"
        assert imported.job(3).timeout == 99
        assert imported.outcomes("--overwrite")["job shop-jobs/job-3"] == "update"
        assert imported.job(3).timeout == 11
        assert set(imported.outcomes().values()) == {"unchanged"}

    def test_job_that_was_deleted_here_is_linked_to_no_new_parent(
        self, imported: ImportCase
    ) -> None:
        self.delete_here(imported, 2)
        imported.xxl.job("parent", id=6, child_jobid="2,3")

        said = imported.run()

        assert "job shop-jobs/parent: its child 2 was deleted here and is not linked" in said
        assert imported.rows.database.read(lambda session: job_links.children_of(session, 6)) == (
            3,
        )
        assert "not linked" not in imported.run()

    @both
    def test_id_of_a_deleted_job_is_given_to_no_other(self, imported: ImportCase) -> None:
        for job_id in (4, 5):
            self.delete_here(imported, job_id)
        imported.xxl.execute("DELETE FROM xxl_job_info WHERE id = %s", (4,))
        imported.xxl.execute("UPDATE xxl_job_info SET job_desc = %s WHERE id = %s", ("other", 5))

        found = imported.findings("--source", "another")

        given = {one["name"]: one["target_id"] for one in found if one.get("what") == "job"}
        assert given["shop-jobs/other"] > 5
        assert imported.outcomes()["job shop-jobs/other"] == "deleted here"

    def test_job_that_was_deleted_here_stays_so(self, imported: ImportCase) -> None:
        self.delete_here(imported, 4)

        assert imported.outcomes()["job shop-jobs/job-4"] == "deleted here"

    def test_edits_made_only_here_stay_even_if_xxl_job_is_to_win(
        self, imported: ImportCase
    ) -> None:
        self.edit_here(imported, 2, timeout=99, alarm_email="ops@example.com")
        self.delete_here(imported, 4)
        self.edit_there(imported, 3, executor_timeout=11)
        self.edit_here(imported, 3, timeout=99)
        imported.rows.database.write(
            lambda session: setattr(session.get_one(App, 1), "title", "Ours")
        )

        said = imported.run("--overwrite")

        assert (imported.job(2).timeout, imported.job(2).alarm_email) == (99, "ops@example.com")
        assert imported.app(1).title == "Ours"
        assert "deleted here  job shop-jobs/job-4: it was deleted here\n" in said
        assert "update    job shop-jobs/job-3: it was changed on both sides" in said
        assert "done: jobs: 3 unchanged, 1 update, 1 deleted here\n" in said

    def test_job_deleted_here_and_changed_there_comes_back_if_xxl_job_is_to_win(
        self, imported: ImportCase
    ) -> None:
        self.delete_here(imported, 4)
        self.edit_there(imported, 4, executor_timeout=11)

        assert imported.outcomes()["job shop-jobs/job-4"] == "deleted here"
        said = imported.run("--overwrite")

        assert "create    job shop-jobs/job-4: it was deleted here and changed there" in said
        assert imported.job(4).timeout == 11

    @both
    def test_job_that_comes_back_gets_no_id_that_another_job_has(self, case: ImportCase) -> None:
        ours = case.rows.job("ours", "a-first", id=3)
        case.xxl.group(id=5)
        case.xxl.job("theirs", id=3, job_group=5)
        case.run()
        theirs = case.named("theirs").id
        self.delete_here(case, theirs)
        self.edit_there(case, 3, executor_timeout=11)

        case.run("--overwrite")

        assert (case.job(ours).name, case.job(theirs).timeout) == ("ours", 11)

    def test_app_that_was_here_before_stays_even_if_xxl_job_is_to_win(
        self, case: ImportCase
    ) -> None:
        app_id = case.rows.app("shop-jobs")
        case.rows.database.write(
            lambda session: setattr(session.get_one(App, app_id), "address_list", "host-1")
        )
        case.xxl.group(id=7, title="Theirs")

        case.run("--overwrite")

        assert (case.app(app_id).title, case.app(app_id).address_list) == ("shop-jobs", "host-1")

    def test_app_renamed_there_to_one_that_is_here_is_that_one_from_then_on(
        self, imported: ImportCase
    ) -> None:
        app_id = imported.rows.app("another")
        imported.xxl.execute("UPDATE xxl_job_group SET app_name = 'another', title = 'Theirs'")

        imported.run("--overwrite")

        assert imported.app(app_id).title == "another"
        assert imported.outcomes()["app another"] == "unchanged"

    def test_other_xxl_job_under_the_same_name_is_refused(self, imported: ImportCase) -> None:
        imported.xxl.execute("UPDATE xxl_job_group SET app_name = 'another'")

        said = imported.run()

        assert said.startswith("error: group 1 is another now and was shop-jobs at the last import")
        assert "--source" in said

    def test_job_that_may_not_run_any_more_is_stopped(self, imported: ImportCase) -> None:
        self.edit_here(imported, 5, is_enabled=1, next_tick_at=4_000_000_000_000)
        self.edit_there(imported, 5, executor_route_strategy="NEAREST")

        imported.run()

        job = imported.job(5)
        assert job.is_enabled == 0
        assert job.stop_reason.startswith("not fully imported: executor_route_strategy")


def test_dry_run_writes_nothing(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job()
    case.xxl.add("user", username="olga", password="x", role=0, permission="1")
    case.xxl.add("log_report", trigger_day="2024-03-01 00:00:00", suc_count=3)
    before = counts(case)

    outcomes = case.outcomes("--dry-run", "--passwords", str(case.folder / "never"))

    assert set(outcomes.values()) == {"create"}
    assert counts(case) == before
    assert not (case.folder / "never").exists()


@both
def test_run_ids_go_on_far_above_those_of_the_log(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.add("log", id=5_000_000, job_group=1, job_id=1, trigger_code=0, handle_code=0)

    case.run()

    assert case.rows.database.write(lambda session: take_block(session, 1)) == 6_000_001


def day_reports(case: ImportCase) -> list[tuple[date, int, int]]:
    found = case.rows.database.read(
        lambda session: session.execute(select(DayReport)).scalars().all()
    )
    return [(one.day.date(), one.succeeded, one.failed) for one in found if one.day]


@both
def test_day_report_arrives_for_days_that_are_over(case: ImportCase) -> None:
    case.xxl.add("log_report", trigger_day="2024-03-01 00:00:00", suc_count=3, fail_count=1)
    tomorrow = datetime.now(UTC).replace(tzinfo=None) + timedelta(days=1)
    case.xxl.add("log_report", trigger_day=tomorrow, suc_count=9)

    case.run()

    assert day_reports(case) == [(date(2024, 3, 1), 3, 1)]


def test_day_on_which_schedulers_had_nothing_to_do_yet_arrives_once(case: ImportCase) -> None:
    now_ms = int(datetime.now(UTC).timestamp() * 1_000)
    idle = datetime.now(UTC).date() - timedelta(days=2)
    reporter = Reporter(node="one", database=case.rows.database, timezone="UTC")
    reporter.run_round(now_ms - 2 * DAY_MS)
    case.xxl.add("log_report", trigger_day=str(idle), suc_count=1_000, fail_count=3)
    case.xxl.add("log_report", trigger_day=str(idle - timedelta(days=1)))
    assert day_reports(case) == [(idle, 0, 0)]

    said = [case.outcomes() for _ in range(2)]
    reporter.run_round(now_ms)

    assert [set(one.values()) for one in said] == [{"create"}, {"unchanged"}]
    assert (idle, 1_000, 3) in day_reports(case)


def test_day_of_which_runs_are_counted_here_stays_as_it_is(case: ImportCase) -> None:
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    due_ms = int(datetime.now(UTC).timestamp() * 1_000) - DAY_MS
    case.rows.run(case.rows.job("ours"), due_ms, status=RunStatus.SUCCEEDED)
    Reporter(node="one", database=case.rows.database, timezone="UTC").run_round(due_ms + DAY_MS)
    case.xxl.add("log_report", trigger_day=str(yesterday), suc_count=1_000)

    said = case.run()

    assert f"unchanged  day {yesterday}: it has a report here" in said
    assert (yesterday, 1, 0) in day_reports(case)


def test_day_with_runs_that_never_ended_is_not_counted_anew(case: ImportCase) -> None:
    day = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=30)
    case.xxl.add("log_report", trigger_day=day, running_count=2, suc_count=3, fail_count=1)

    said = case.run()

    now_ms = int(datetime.now(UTC).timestamp() * 1_000)
    Reporter(node="one", database=case.rows.database, timezone="UTC").run_round(now_ms)
    assert (day.date(), 3, 3) in day_reports(case)
    assert (
        "differs   xxl_job_log_report running_count '2': "
        "these runs never ended there; their days count them as failed"
    ) in said


class TestUsers:
    def user(self, case: ImportCase, name: str) -> User | None:
        return case.rows.database.read(lambda session: users.by_name(session, name))

    @both
    def test_they_arrive_disabled_with_their_apps(self, case: ImportCase) -> None:
        case.rows.job("ours", "a-first")
        case.xxl.group(id=1)
        case.xxl.add("user", username="olga", password="x", role=0, permission="1,77")
        case.xxl.add("user", username="boss", password="x", role=1, permission=None)
        case.xxl.add("user", username="nobody", password="x", role=0, permission="")
        case.xxl.add("user", username="x y", password="x", role=1, permission="")

        found = case.findings()

        olga, boss = self.user(case, "olga"), self.user(case, "boss")
        assert olga is not None
        assert boss is not None
        assert (olga.role, olga.may_edit_glue, olga.is_disabled) == (0, 0, 1)
        assert case.app(int(olga.permission or 0)).name == "shop-jobs"
        assert (boss.role, boss.may_edit_glue, boss.is_disabled) == (1, 1, 1)
        assert self.user(case, "nobody") is None
        told = {one["value"] for one in found if one.get("table") == "xxl_job_user"}
        assert told == {"77", "", "x y"}
        entries = case.rows.database.read(
            lambda session: audit_log.listing(session, AuditFilter(action="user.add"))
        )
        kept = {entry.name: json.loads(entry.after or "") for entry in entries}
        assert kept["olga"]["may_edit_glue"] is False
        assert set(kept["olga"]) == set(kept["boss"]) == {"role", "app_ids", "may_edit_glue"}

    def test_they_see_an_app_that_was_here_before_and_stays_as_it_is(
        self, case: ImportCase
    ) -> None:
        case.rows.app("first")
        app_id = case.rows.app("shop-jobs")
        case.xxl.group(id=1, title="Theirs")
        case.xxl.add("user", username="olga", password="x", role=0, permission="1")

        case.run()
        case.xxl.execute("UPDATE xxl_job_group SET title = 'Changed'")
        outcomes = case.outcomes()

        olga = self.user(case, "olga")
        assert olga is not None
        assert olga.permission == str(app_id)
        assert case.app(app_id).title == "shop-jobs"
        assert outcomes["app shop-jobs"] == "conflict"

    def test_passwords_go_into_a_file_of_ones_own(self, case: ImportCase) -> None:
        case.xxl.group()
        case.xxl.add("user", username="olga", password="x", role=0, permission="1")
        path = case.folder / "passwords"

        case.run("--passwords", str(path))

        [line] = path.read_text().splitlines()
        assert line.startswith("olga ")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        olga = self.user(case, "olga")
        assert olga is not None
        assert (olga.is_disabled, olga.must_change_password) == (0, 1)
        assert case.run("--passwords", str(path)).startswith("error: ")

    def test_one_administrator_remains_and_changes_of_rights_are_in_the_audit_log(
        self, case: ImportCase
    ) -> None:
        case.xxl.group(id=1)
        for name in ("alice", "bobby"):
            case.xxl.add("user", username=name, password="x", role=1, permission="")
        case.xxl.add("user", username="carol", password="x", role=0, permission="1")
        case.run("--passwords", str(case.folder / "passwords"))
        case.xxl.execute("UPDATE xxl_job_user SET role = 0, permission = '1'")

        said = case.run()

        assert "conflict  user bobby: no administrator would remain\n" in said
        assert "done: users: 1 update, 1 conflict, 1 unchanged\n" in said
        alice, bobby = self.user(case, "alice"), self.user(case, "bobby")
        assert alice is not None
        assert bobby is not None
        assert (alice.role, bobby.role) == (0, 1)
        [entry] = case.rows.database.read(
            lambda session: audit_log.listing(session, AuditFilter(action="user.rights"))
        )
        before, after = json.loads(entry.before or ""), json.loads(entry.after or "")
        assert (entry.name, before["role"], after["role"]) == ("alice", "administrator", "operator")

    def test_our_own_administrator_is_left_alone(self, case: ImportCase) -> None:
        case.rows.database.write(lambda session: users.add_first(session, "admin", "hash"))
        case.xxl.add("user", username="admin", password="x", role=0, permission="")
        case.xxl.add("user", username="Admin", password="x", role=1, permission="")

        outcomes = case.outcomes()

        assert outcomes == {"user Admin": "left out"}
        admin = self.user(case, "admin")
        assert admin is not None
        assert (admin.role, admin.password) == (1, "hash")


def test_manual_addresses_are_listed_as_the_gateway_names_them(case: ImportCase) -> None:
    case.xxl.group(
        id=1, address_type=1, address_list="http://10.1.2.3:9999/,http://exec:9998,nonsense://"
    )

    said = case.run()

    assert case.app(1).address_list == "10.1.2.3:9999,exec:9998"
    assert "WARREN_GATEWAY_ALLOW=10.1.2.3:9999" in said


def test_groups_that_are_one_app_here_are_merged(case: ImportCase) -> None:
    case.xxl.group("Shop_Jobs", id=1)
    case.xxl.group("shop-jobs", id=2)
    case.xxl.job("one", job_group=1)
    case.xxl.job("one", job_group=2)

    case.run()

    assert {case.job(job_id).app_id for job_id in (1, 2)} == {1}
    assert set(case.outcomes().values()) == {"unchanged"}


def test_one_app_can_be_imported_alone(case: ImportCase) -> None:
    case.xxl.group("first-app", id=1)
    case.xxl.group("second-app", id=2)
    case.xxl.job("one", job_group=1, child_jobid="2")
    case.xxl.job("two", id=2, job_group=2)
    case.xxl.add("user", username="olga", password="x", role=1, permission="")

    outcomes = case.outcomes("--app", "first-app")

    assert outcomes == {"app first-app": "create", "job first-app/one": "create"}
    case.run()
    assert case.rows.database.read(lambda session: job_links.children_of(session, 1)) == (2,)


class TestChildrenOfAnotherApp:
    @pytest.fixture
    def one_app(self, case: ImportCase) -> ImportCase:
        """One of two apps is imported; its job has a child in the other."""
        case.xxl.group("first-app", id=1)
        case.xxl.group("second-app", id=2)
        case.xxl.job("one", id=1, job_group=1, child_jobid="3,2")
        case.xxl.job("two", id=2, job_group=2)
        case.xxl.job("three", id=3, job_group=1)
        case.run("--app", "first-app")
        return case

    def edit_here(self, case: ImportCase) -> None:
        def unit(session: Session) -> None:
            session.get_one(Job, 1).timeout = 99

        case.rows.database.write(unit)

    def children(self, case: ImportCase) -> tuple[int, ...]:
        return case.rows.database.read(lambda session: job_links.children_of(session, 1))

    def test_are_linked_though_their_parent_was_edited_here(self, one_app: ImportCase) -> None:
        self.edit_here(one_app)

        outcomes = one_app.outcomes()

        assert outcomes["job first-app/one"] == "unchanged"
        assert self.children(one_app) == (3, 2)
        assert one_app.job(1).timeout == 99
        assert set(one_app.outcomes().values()) == {"unchanged"}

    def test_make_no_edit_of_their_parent_count_as_one_on_both_sides(
        self, one_app: ImportCase
    ) -> None:
        self.edit_here(one_app)

        one_app.run("--app", "first-app", "--overwrite")

        assert one_app.job(1).timeout == 99
        one_app.xxl.execute("UPDATE xxl_job_info SET executor_timeout = 11 WHERE id = 1", ())
        assert one_app.outcomes("--app", "first-app")["job first-app/one"] == "conflict"

    def test_are_awaited_while_nothing_changes(self, one_app: ImportCase) -> None:
        said = one_app.run("--app", "first-app")

        assert "first-app/one: linked once they are imported: 2" in said
        assert self.children(one_app) == (3,)

    def test_are_linked_when_their_app_is_imported_alone_too(self, one_app: ImportCase) -> None:
        preview = one_app.run("--app", "second-app", "--dry-run")
        assert self.children(one_app) == (3,)

        said = one_app.run("--app", "second-app")

        for one in (preview, said):
            assert "update    job first-app/one: its children: 3, 2\n" in one
        assert self.children(one_app) == (3, 2)
        assert set(one_app.outcomes().values()) == {"unchanged"}

    def test_bring_none_back_that_was_taken_from_their_parent_here(
        self, one_app: ImportCase
    ) -> None:
        job = one_app.job(1)
        NamedCommands(one_app.rows.database).apply([], [job_spec(job, "first-app", ())])
        assert self.children(one_app) == ()

        one_app.run("--app", "first-app")
        assert self.children(one_app) == ()
        one_app.run()

        assert self.children(one_app) == (2,)
        assert set(one_app.outcomes().values()) == {"unchanged"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_becomes_of_children_is_said_before_and_after(case: ImportCase, dry_run: bool) -> None:
    case.xxl.group(id=1)
    case.xxl.job("gone", id=2)
    case.run()
    case.rows.database.write(lambda session: session.delete(session.get_one(Job, 2)))
    case.xxl.job("parent", id=1, child_jobid="2,3")
    case.xxl.job("child", id=3)

    said = case.run(*(["--dry-run"] if dry_run else []))

    assert "create    job shop-jobs/parent: its children: 3\n" in said
    assert "job shop-jobs/parent: its child 2 was deleted here and is not linked" in said
    assert "once they are imported" not in said


def test_job_file_is_printed_and_nothing_written(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job("parent", child_jobid="2", trigger_status=1)
    case.xxl.job("child", id=2, schedule_type="FIX_RATE", schedule_conf="30")
    before = counts(case)

    said = case.run("--print")

    assert "- name: shop-jobs" in said
    assert 'schedule: {cron: "0 0 2 * * ?", timezone: Asia/Shanghai}' in said
    assert "children: [child]" in said
    assert "schedule: {every: 30}" in said
    assert "enabled" not in said
    assert counts(case) == before


def test_job_file_names_what_is_not_in_it(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job("parent", id=1, child_jobid="2,3")
    case.xxl.job("bad", id=2, schedule_conf="whenever")
    case.xxl.job("good", id=3)

    said = case.run("--print")

    assert "children: [good]" in said
    assert "stopped" not in said
    assert "warning: left out  xxl_job_info 2 schedule_conf 'whenever'" in said
    assert "; the job is not in the file\n" in said
    assert "xxl_job_info 1 child_jobid '2': job 2 is not in the file; dropped\n" in said


@both
def test_same_names_of_three_xxl_jobs_are_made_unique(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job("a", id=1)

    ids = []
    for source in ("one", "two", "three"):
        [job] = [one for one in case.findings("--source", source) if one.get("what") == "job"]
        assert (job["did"], job["name"]) == (
            "create",
            f"shop-jobs/{case.job(job['target_id']).name}",
        )
        ids.append(job["target_id"])

    assert [case.job(job_id).name for job_id in ids] == ["a", "a #1", f"a #{ids[2]}"]


def test_source_of_its_own_keeps_two_xxl_jobs_apart(case: ImportCase) -> None:
    case.xxl.group()
    case.xxl.job()
    case.run()
    case.xxl.execute("UPDATE xxl_job_group SET app_name = 'another'")

    outcomes = case.outcomes("--source", "second")

    assert outcomes == {"app another": "create", "job another/nightly": "create"}
    sources = case.rows.database.read(
        lambda session: set(session.execute(select(ImportOrigin.source)).scalars())
    )
    assert sources == {"xxl-job", "second"}


def test_its_own_handlers_become_warrens_unless_they_are_kept(case: ImportCase) -> None:
    request, command = '{"url": "https://x.example/a", "method": "get"}', "ls -l"
    case.xxl.group("shop-jobs", id=7)
    for job_id, handler, param in (
        (1, "httpJobHandler", request),
        (2, "commandJobHandler", command),
        (3, "nightlyHandler", "p=1"),
    ):
        case.xxl.job(
            f"job-{job_id}",
            id=job_id,
            job_group=7,
            executor_handler=handler,
            executor_param=param,
        )

    def imported() -> list[tuple[str | None, str | None]]:
        return [(job.handler, job.param) for job in map(case.job, (1, 2, 3))]

    case.findings("--keep-handlers")
    kept = imported()
    case.findings()
    mapped = imported()

    assert kept == [
        ("httpJobHandler", request),
        ("commandJobHandler", command),
        ("nightlyHandler", "p=1"),
    ]
    assert [handler for handler, _ in mapped] == ["warren.http", "warren.command", "nightlyHandler"]
    assert json.loads(mapped[0][1] or "")["url"] == "https://x.example/a"
    assert json.loads(mapped[1][1] or "")["args"] == ["ls", "-l"]
