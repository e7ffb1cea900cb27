"""Tests of alarm targets, and what people do about alarms that reached nobody."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from tests.support.acting import acting
from tests.support.mailbox import Mailbox
from tests.support.stored_rows import Rows
from tests.support.webhook_server import WebhookServer
from warren.scheduler.actor import Right
from warren.scheduler.alarms.addresses import MailServer
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.alarms.mail import Mailer
from warren.scheduler.alarms.message import MessageContext
from warren.scheduler.alarms.rate_limiter import AlarmRateLimiter
from warren.scheduler.alarms.sender import AlarmSender, Send, SlowTargets
from warren.scheduler.alarms.webhook import SignedWebhook, Webhook, sign
from warren.scheduler.commands.alarm_commands import MAX_TESTS, AlarmCommands
from warren.scheduler.problems import Code, Problem, Refused
from warren.sql.alarms import alarm_listing, alarms
from warren.sql.alarms.alarm_listing import AlarmFilter, AlarmState, ListedAlarm
from warren.sql.alarms.alarms import MAIL, AlarmStatus, MessageKind, NewAlarm, RunAlarm
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.models import Alarm, AuditEntry, Run
from warren.sql.run_status import RunStatus

NOW = 1_795_176_000_000
KEY = b"0" * 32
EVERYTHING = AlarmFilter(limit=100)
OPS = AlarmTargets(emails=("ops@example.com",))


@pytest.fixture
def rows(sqlite_schema_url: str) -> Iterator[Rows]:
    rows = Rows(sqlite_schema_url)
    rows.scheduler("s1", NOW, mails=True)
    yield rows
    rows.database.close()


def commands(rows: Rows, now_ms: int = NOW, **actor: Any) -> AlarmCommands:
    return acting(rows.database, lambda: now_ms, who="alice", **actor).alarms


def send(rows: Rows, kind: MessageKind, how: Send, now_ms: int = NOW) -> None:
    """Send all that is due, as a scheduler's role does."""
    sender = AlarmSender(
        kind=kind,
        database=rows.database,
        send=how,
        context=MessageContext("UTC"),
        now_ms=lambda: now_ms,
        slow=SlowTargets(),
    )
    while sender.run_round(now_ms) == 0:
        pass


def outcome(rows: Rows, ids: list[int]) -> ListedAlarm:
    [found] = commands(rows).wait_for_tests(ids, 0)
    return found


def stored(rows: Rows) -> list[Alarm]:
    every = select(Alarm).order_by(Alarm.id)
    return rows.database.read(lambda session: list(session.execute(every).scalars()))


def undelivered(rows: Rows, now_ms: int = NOW, **seen: Any) -> int:
    app_ids = seen.get("app_ids")
    return rows.database.read(
        lambda session: alarm_listing.count_undelivered(session, app_ids, now_ms)
    )


def alarm(rows: Rows, status: AlarmStatus, job_id: int = 0, run_id: int = 0, **more: Any) -> int:
    """Store an alarm of the app as it is after trouble; return its id."""
    key = f"tick:{len(stored(rows))}"
    new = NewAlarm(
        subject_key=key,
        channel=MAIL,
        target="ops@example.com",
        content='{"about":"absence","app":"reports","seconds":60,"jobs":1}',
        created_at=more.pop("created_at", NOW - DAY_MS),
        app_id=rows.app(more.pop("app", "reports")),
        job_id=job_id,
        run_id=run_id,
        status=status,
    )

    def unit(session: Any) -> int:
        alarms.add(session, [new])
        [alarm_id] = alarm_listing.ids_of_subject(session, key)
        session.execute(update(Alarm).where(Alarm.id == alarm_id).values(tries=1, **more))
        return alarm_id

    return rows.database.write(unit)


class TestSending:
    def test_a_test_by_mail_says_what_the_server_answered(self, rows: Rows) -> None:
        job_id = rows.job("nightly", alarm_email="ops@example.com")

        with Mailbox() as box:
            ids = commands(rows).test_job(job_id)
            send(rows, MessageKind.MAIL, Mailer(MailServer.parse(box.url), domain="here").send)

        [mail] = box.mails
        assert mail["Subject"] == "[warren] reports/nightly: test alarm"
        assert "alice sent this test" in mail.as_string()
        found = outcome(rows, ids)
        assert (found.status, found.answer) == ("SENT", "127.0.0.1 answered: 250 kept")

    def test_a_test_is_tried_once_and_says_why_it_failed(self, rows: Rows) -> None:
        with Mailbox() as box:
            box.refusal = "550 no such user"
            ids = commands(rows).test(OPS)
            send(rows, MessageKind.MAIL, Mailer(MailServer.parse(box.url), domain="here").send)

        found = outcome(rows, ids)
        words = "the e-mail was refused: 550 no such user"
        assert (found.status, found.error) == ("GIVEN_UP", words)
        assert undelivered(rows) == 0

    def test_a_job_without_targets_tests_those_of_its_app(self, rows: Rows) -> None:
        job_id = rows.job("nightly")
        with pytest.raises(Problem, match="nobody to alarm: neither reports/nightly nor its app"):
            commands(rows).test_job(job_id)

        ids = commands(rows).test_job(job_id, defaults=AlarmTargets(emails=("boss@example.com",)))

        assert outcome(rows, ids).target == "boss@example.com"

    def test_a_webhook_is_called_by_the_rules_of_real_ones(self, rows: Rows) -> None:
        app_id = rows.app()
        with pytest.raises(Refused, match="link-local"):
            commands(rows).test_app(app_id, AlarmTargets(webhook="http://169.254.169.254/latest"))

        with WebhookServer() as hook:
            hook.answer = b"inner words"
            ids = commands(rows).test_app(app_id, AlarmTargets(webhook=hook.url))
            send(rows, MessageKind.WEBHOOK, Webhook().send)

        assert (hook.posts[0]["about"], hook.posts[0]["app"]) == ("test", "reports")
        assert outcome(rows, ids).answer == "it answered 200"

    def test_a_run_webhook_gets_a_signed_test_that_is_no_end_of_a_run(self, rows: Rows) -> None:
        job_id = rows.job("nightly")
        with WebhookServer() as hook:
            ids = commands(rows).test_job(job_id, webhook=RunWebhook(url=hook.url))
            signed = SignedWebhook(Webhook(), lambda _app: (KEY,))
            send(rows, MessageKind.RUN_END, signed.send)

        [(_, _, headers)], [post] = hook.requests, hook.posts
        assert (post["type"], post["data"]["job"]) == ("test", "nightly")
        name, at = headers["webhook-id"], headers["webhook-timestamp"]
        assert headers["webhook-signature"] == sign(KEY, name, at, hook.bodies[0])
        assert outcome(rows, ids).status == "SENT"

    def test_tests_leave_the_limit_on_alarms_alone(self, rows: Rows) -> None:
        job_id = rows.job("nightly", alarm_email="ops@example.com")
        for _ in range(5):
            commands(rows).test_job(job_id)

        alarm(rows, AlarmStatus.NEW, job_id)
        AlarmRateLimiter(database=rows.database, per_hour=1).run_round(NOW)

        assert {one.status for one in stored(rows)} == {AlarmStatus.READY}

    def test_a_test_is_recorded_without_the_secret_of_its_target(self, rows: Rows) -> None:
        commands(rows).test(AlarmTargets(webhook="https://hooks.example.com/hush"))

        every = select(AuditEntry)
        [entry] = rows.database.read(lambda session: list(session.execute(every).scalars()))
        assert (entry.action, entry.who) == ("alarm.test", "alice")
        assert "hooks.example.com" in (entry.after or "")
        assert "hush" not in (entry.after or "")


class TestRefusals:
    def refusal(self, rows: Rows, targets: AlarmTargets = OPS, **actor: Any) -> Code:
        with pytest.raises(Refused) as caught:
            commands(rows, **actor).test_app(rows.app(), targets)
        assert stored(rows)[MAX_TESTS:] == []
        return caught.value.problems[0].code

    def test_an_email_without_a_mail_server(self, rows: Rows) -> None:
        rows.forget_schedulers()
        rows.scheduler("s2", NOW)

        assert self.refusal(rows) is Code.NO_MAIL_SERVER

    def test_anything_without_a_scheduler(self, rows: Rows) -> None:
        rows.forget_schedulers()

        assert self.refusal(rows) is Code.NO_SENDER

    def test_an_address_that_is_none(self, rows: Rows) -> None:
        assert self.refusal(rows, AlarmTargets(emails=("ops",))) is Code.EMAIL

    def test_more_than_so_many_in_a_minute(self, rows: Rows) -> None:
        many = [f"{number}@example.com" for number in range(MAX_TESTS)]
        for email in many:
            commands(rows).test(AlarmTargets(emails=(email,)))

        assert self.refusal(rows) is Code.TOO_MANY_TESTS

    def test_a_viewer_and_people_of_other_apps(self, rows: Rows) -> None:
        assert self.refusal(rows, rights={Right.VIEW}) is Code.NO_RIGHT
        assert self.refusal(rows, app_ids={rows.app("other")}) is Code.NO_APP


class TestUndelivered:
    def test_those_count_that_were_given_up_or_failed_or_that_nobody_sends(
        self, rows: Rows
    ) -> None:
        alarm(rows, AlarmStatus.GIVEN_UP)
        alarm(rows, AlarmStatus.READY, created_at=NOW, error="it answered 500")
        alarm(rows, AlarmStatus.READY, created_at=NOW - HOUR_MS)

        alarm(rows, AlarmStatus.READY, created_at=NOW)
        alarm(rows, AlarmStatus.SENT)
        alarm(rows, AlarmStatus.HELD)

        assert undelivered(rows) == 3
        assert undelivered(rows, app_ids={rows.app("other")}) == 0
        wanted = AlarmFilter(limit=10, state=AlarmState.UNDELIVERED)
        found = rows.database.read(lambda s: alarm_listing.listing(s, wanted, now_ms=NOW))
        assert {one.state(NOW) for one in found} == {AlarmState.UNDELIVERED}
        assert len(found) == 3

    def test_they_are_sent_again_on_demand(self, rows: Rows) -> None:
        job_id = rows.job("nightly")
        run_id = rows.run(job_id, NOW, status=RunStatus.FAILED, alarm_status=RunAlarm.GIVEN_UP)
        alarm(rows, AlarmStatus.GIVEN_UP, job_id, run_id, error="it answered 500")

        assert commands(rows).send_again(EVERYTHING) == 1
        send(rows, MessageKind.MAIL, lambda _alarm, _message: "250 kept")

        assert undelivered(rows) == 0
        assert stored(rows)[0].error is None
        found = rows.database.read(lambda session: session.get_one(Run, run_id))
        assert found.alarm_status == RunAlarm.SENT

    def test_a_run_stays_untold_while_another_of_its_alarms_is(self, rows: Rows) -> None:
        job_id = rows.job("nightly")
        run_id = rows.run(job_id, NOW, status=RunStatus.FAILED, alarm_status=RunAlarm.GIVEN_UP)
        first = alarm(rows, AlarmStatus.GIVEN_UP, job_id, run_id)
        alarm(rows, AlarmStatus.GIVEN_UP, job_id, run_id)

        commands(rows).send_again(AlarmFilter(limit=1, alarm_id=first))
        send(rows, MessageKind.MAIL, lambda _alarm, _message: "250 kept")

        found = rows.database.read(lambda session: session.get_one(Run, run_id))
        assert found.alarm_status == RunAlarm.GIVEN_UP

    def test_one_that_was_dismissed_is_neither_counted_nor_sent(self, rows: Rows) -> None:
        alarm(rows, AlarmStatus.GIVEN_UP)
        alarm(rows, AlarmStatus.READY, error="it answered 500")

        assert commands(rows).dismiss(EVERYTHING) == 2
        assert commands(rows).send_again(EVERYTHING) == 0

        assert undelivered(rows) == 0
        assert {one.status for one in stored(rows)} == {AlarmStatus.DISMISSED}

    def test_nobody_changes_those_of_other_apps(self, rows: Rows) -> None:
        alarm(rows, AlarmStatus.GIVEN_UP)

        assert commands(rows, app_ids={rows.app("other")}).dismiss(EVERYTHING) == 0
        assert undelivered(rows) == 1
