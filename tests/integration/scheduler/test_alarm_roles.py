"""Alarms from the end of a run to the receiver, role by role, on a clock of the test's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from tests.support.acting import acting
from tests.support.mailbox import Mailbox
from tests.support.stored_rows import Rows
from tests.support.webhook_server import WebhookServer
from warren.broker.messages import HealthIssue, Heartbeat, Load
from warren.broker.reasons import Reason, Why
from warren.scheduler.alarms.addresses import MailServer
from warren.scheduler.alarms.events import NO_TARGETS, AlarmTargets
from warren.scheduler.alarms.mail import Mailer
from warren.scheduler.alarms.message import Message, MessageContext
from warren.scheduler.alarms.rate_limiter import GIVE_UP_MS, KEEP_MS, AlarmRateLimiter
from warren.scheduler.alarms.sender import CLAIM_MS, AlarmSender, Send, SlowTargets
from warren.scheduler.alarms.watches import AbsenceWatch, HealthIssueWatch
from warren.scheduler.alarms.webhook import Webhook
from warren.scheduler.board.folding import rebuild
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.scheduler.membership.roster import Roster
from warren.scheduler.membership.self_health import SelfIssue
from warren.scheduler.node_context import Timeouts
from warren.scheduler.problems import Problem
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import AlarmStatus, MessageKind, secret_of
from warren.sql.ids import RunIds
from warren.sql.instants import DAY_MS, HOUR_MS
from warren.sql.models import Alarm, App, AuditEntry, Job, Run
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus

START = 1_795_176_000_000
DEFAULTS = AlarmTargets(emails=("boss@example.com",))


@dataclass
class Desk:
    """Roles of one scheduler, of which a test turns each round; `send` is what sends an alarm."""

    rows: Rows
    defaults: AlarmTargets = NO_TARGETS
    per_hour: int = 10
    now_ms: int = START
    sent: list[tuple[str, Message]] = field(default_factory=list)
    failure: BaseException | None = None
    broken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.database = self.rows.database
        self.send: Send = self.keep
        self.limiter = AlarmRateLimiter(database=self.database, per_hour=self.per_hour)
        self.mailer = self.sender(MessageKind.MAIL)
        self.webhooks = self.sender(MessageKind.WEBHOOK)

    def sender(self, kind: MessageKind) -> AlarmSender:
        return AlarmSender(
            kind=kind,
            database=self.database,
            send=self._pass_on,
            context=MessageContext("UTC"),
            now_ms=lambda: self.now_ms,
            slow=SlowTargets(),
        )

    def job(self, name: str = "nightly", **columns: Any) -> int:
        values = {"alarm_email": "ops@example.com", "is_enabled": 1} | columns
        return self.rows.job(name, **values)

    def run(self, job_id: int, at_ms: int = START, **columns: Any) -> int:
        return self.rows.run(job_id, at_ms, **({"status": RunStatus.RUNNING} | columns))

    def end(self, run_id: int, status: RunStatus = RunStatus.FAILED, **values: Any) -> None:
        completion = Completion(RunIds(self.database), lambda: self.now_ms, self.defaults)
        facts: dict[str, Any] = {
            "message": "no luck",
            "finished_at": self.now_ms,
            "log_tail": "tail",
        }
        end = End(run_id=run_id, status=status, **(facts | values))
        tally = self.database.write(lambda session: completion.end(session, [end]))
        assert tally.won == {run_id: status}

    def failed_before(self, failure: RunStatus, *, retries: int = 1, **columns: Any) -> int:
        """Return the second attempt of a tick whose first one ended so; it has a retry less."""
        job_id = self.job()
        said = {"message": "no luck", "log_tail": "tail"}
        self.run(job_id, status=failure, retries_left=retries, **said)
        return self.run(job_id, attempt=1, starts=1, retries_left=retries - 1, **columns)

    def fail(self, job_id: int, at_ms: int = START, **columns: Any) -> int:
        run_id = self.run(job_id, at_ms, **columns)
        self.end(run_id)
        return run_id

    def round(self) -> None:
        """Let through and send everything that is due."""
        self.limiter.run_round(self.now_ms)
        for sender in (self.mailer, self.webhooks):
            while sender.run_round(self.now_ms) == 0:
                pass

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    def subjects(self) -> list[str]:
        return [f"{target}: {message.subject}" for target, message in self.sent]

    def alarms(self) -> list[Alarm]:
        statement = select(Alarm).order_by(Alarm.id)
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def statuses(self) -> list[str]:
        return [alarm.status for alarm in self.alarms()]

    def alarm_status(self, run_id: int) -> int:
        return self.database.read(lambda session: session.get_one(Run, run_id).alarm_status)

    def change(self, kind: type, row_id: int, **columns: Any) -> None:
        """Write a row directly, as another program might."""

        def unit(session: Any) -> None:
            row = session.get_one(kind, row_id)
            for name, value in columns.items():
                setattr(row, name, value)

        self.database.write(unit)

    def _pass_on(self, alarm: Alarm, message: Message) -> str:
        return self.send(alarm, message)

    def keep(self, alarm: Alarm, message: Message) -> str:
        if self.failure is not None and (not self.broken or alarm.target in self.broken):
            raise self.failure
        self.sent.append((alarm.target, message))
        return "250 kept"


@pytest.fixture
def rows(sqlite_schema_url: str) -> Any:
    rows = Rows(sqlite_schema_url)
    yield rows
    rows.database.close()


@pytest.fixture
def desk(rows: Rows) -> Desk:
    return Desk(rows)


ALARMING = [RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.UNDELIVERED, RunStatus.LOST]
QUIET = [RunStatus.SUCCEEDED, RunStatus.KILLED, RunStatus.REFUSED]


@pytest.mark.parametrize("channel", ["json", "dingtalk", "feishu", "wecom", "slack", "teams"])
@pytest.mark.parametrize("status", [200, 302, 403, 500])
def test_nothing_of_a_webhooks_answer_is_kept(desk: Desk, channel: str, status: int) -> None:
    desk.send = Webhook().send
    with WebhookServer() as hook:
        hook.status, hook.headers = status, {"X-Inner": "inner words", "Location": "/inner-words"}
        hook.answer = (
            b'{"errcode":"inner words","errmsg":"inner words","code":7,"msg":"inner words"}'
        )
        desk.fail(desk.job(alarm_email=None, alarm_webhook=hook.url, alarm_style=channel))
        desk.round()

    assert len(hook.posts) == 1
    [kept] = desk.alarms()
    assert kept.tries == 1
    assert "inner" not in f"{kept.error} {kept.content}"


def test_a_robots_webhook_is_signed_with_the_secret_of_the_job_or_app_that_has_it(
    desk: Desk,
) -> None:
    signing = Webhook(secret_of=lambda a: desk.database.read(lambda s: secret_of(s, a)))
    desk.send = signing.send
    with WebhookServer() as hook, WebhookServer() as other:
        hook.answer = other.answer = b'{"errcode":0,"code":0}'
        own = {"alarm_email": None, "alarm_webhook": hook.url, "alarm_style": "dingtalk"}
        app = {"alarm_webhook": other.url, "alarm_style": "feishu", "alarm_secret": "of the app"}
        desk.fail(desk.job("signed", **own, alarm_secret="of the job"))
        desk.fail(desk.job("bare", **own))
        desk.change(App, desk.rows.app("reports"), **app)
        desk.fail(desk.job("of-app", alarm_email=None))
        desk.round()

    paths = [path for _, path, _ in hook.requests]
    assert ["&sign=" in path and "&timestamp=" in path for path in paths] == [True, False]
    assert all(path.startswith("/hook?token=hush") for path in paths)
    assert {"sign", "timestamp", "msg_type"} <= other.posts[0].keys()
    assert "secret" not in f"{hook.requests}{other.bodies}"


class TestMarks:
    @pytest.mark.parametrize("status", ALARMING)
    def test_a_failed_tick_is_told(self, desk: Desk, status: RunStatus) -> None:
        run_id = desk.run(desk.job(), status=RunStatus.SENT)

        desk.end(run_id, status)
        desk.round()

        assert desk.subjects() == [f"ops@example.com: [warren] reports/nightly failed: {status}"]
        assert desk.alarm_status(run_id) == 2

    def test_a_run_that_its_executors_end_cut_off_is_told_in_those_words(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(), status=RunStatus.RUNNING)

        desk.end(run_id, RunStatus.FAILED, message=Reason(Why.CUT_OFF))
        desk.round()

        [(_, message)] = desk.sent
        assert "stopped because its executor shut down" in message.text

    @pytest.mark.parametrize("status", QUIET)
    def test_what_is_no_failure_is_not(self, desk: Desk, status: RunStatus) -> None:
        run_id = desk.run(desk.job())

        desk.end(run_id, status)

        assert desk.alarms() == []
        assert desk.alarm_status(run_id) == 0

    def test_a_cancelled_run_is_not(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(), status=RunStatus.PLANNED)

        desk.end(run_id, RunStatus.CANCELLED)

        assert desk.alarms() == []

    @pytest.mark.parametrize("status", [RunStatus.REFUSED, RunStatus.KILLED])
    @pytest.mark.parametrize("failure", ALARMING)
    def test_a_tick_that_failed_is_told_whatever_its_last_attempt_was(
        self, desk: Desk, failure: RunStatus, status: RunStatus
    ) -> None:
        last = desk.failed_before(failure)

        desk.end(last, status, message="by policy", log_tail="")
        desk.round()

        [(_, told)] = desk.sent
        assert f"by policy; attempt 1 {failure}: no luck" in told.text
        assert "The end of its log:\n  tail" in told.text
        assert f"run:     {last}, attempt 2" in told.text

    def test_a_tick_that_failed_and_whose_retry_a_person_killed_is_not(self, desk: Desk) -> None:
        last = desk.failed_before(RunStatus.FAILED, kill_requested_at=START)

        desk.end(last, RunStatus.KILLED)

        assert desk.alarms() == []

    def test_a_run_that_had_not_begun_when_its_job_was_stopped_is_not(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(is_enabled=0), status=RunStatus.SENT)

        desk.end(run_id, RunStatus.UNDELIVERED, never_started=True)

        assert desk.alarms() == []
        assert desk.alarm_status(run_id) == 0

    def test_a_run_that_failed_after_its_job_was_stopped_is_told(self, desk: Desk) -> None:
        desk.end(desk.run(desk.job(is_enabled=0)), RunStatus.FAILED)

        assert len(desk.alarms()) == 1

    def test_a_refused_retry_of_a_failure_with_retries_left_is_not(self, desk: Desk) -> None:
        last = desk.failed_before(RunStatus.FAILED, retries=2)

        desk.end(last, RunStatus.REFUSED)

        assert desk.alarms() == []

    def test_a_refused_run_that_only_its_delivery_was_repeated_for_is_not(self, desk: Desk) -> None:
        job_id = desk.job()
        desk.run(job_id, status=RunStatus.UNDELIVERED)
        again = desk.run(job_id, attempt=1, redeliveries=1)

        desk.end(again, RunStatus.REFUSED)

        assert desk.alarms() == []

    def test_a_refused_run_of_another_shard_than_the_failed_one_is_not(self, desk: Desk) -> None:
        job_id = desk.job()
        desk.run(job_id, status=RunStatus.FAILED, retries_left=1, shard_total=2)
        other = desk.run(job_id, attempt=1, shard_index=1, shard_total=2)

        desk.end(other, RunStatus.REFUSED)

        assert desk.alarms() == []

    def test_an_attempt_with_a_retry_to_come_is_not(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(), retries_left=1)

        desk.end(run_id)

        assert desk.alarms() == []
        assert desk.alarm_status(run_id) == 0

    def test_a_delivery_that_is_repeated_is_not(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(), status=RunStatus.SENT)

        desk.end(run_id, RunStatus.UNDELIVERED, never_started=True)

        assert desk.alarms() == []

    def test_a_run_that_somebody_wanted_dead_is_not(self, desk: Desk) -> None:
        run_id = desk.run(desk.job(), kill_requested_at=START)

        desk.end(run_id)

        assert desk.alarms() == []

    def test_a_late_result_changes_no_alarm(self, desk: Desk) -> None:
        run_id = desk.fail(desk.job())
        completion = Completion(RunIds(desk.database), lambda: desk.now_ms)
        again = End(run_id=run_id, status=RunStatus.LOST, message="late", finished_at=START)

        desk.database.write(lambda session: completion.end(session, [again]))

        assert len(desk.alarms()) == 1

    def test_three_failed_shards_are_one_alarm(self, desk: Desk) -> None:
        job_id = desk.job()

        for index in range(3):
            desk.fail(job_id, shard_index=index, shard_total=3)
        desk.round()

        assert len(desk.sent) == 1
        assert "shard:   0/3" in desk.sent[0][1].text

    def test_each_tick_is_an_alarm_of_its_own(self, desk: Desk) -> None:
        job_id = desk.job()

        desk.fail(job_id, START)
        desk.fail(job_id, START + 1_000)
        desk.round()

        assert len(desk.sent) == 2

    def test_each_target_is_told(self, desk: Desk) -> None:
        job_id = desk.job(alarm_email="a@x.org,b@x.org", alarm_webhook="https://hooks.slack.com/s")

        desk.fail(job_id)
        desk.round()

        targets = {"a@x.org", "b@x.org", "https://hooks.slack.com/s"}
        assert {target for target, _ in desk.sent} == targets
        assert sorted(alarm.channel for alarm in desk.alarms()) == ["mail", "mail", "slack"]

    def test_a_run_that_nobody_is_told_of_is_marked(self, desk: Desk) -> None:
        run_id = desk.fail(desk.job(alarm_email=""))

        assert desk.alarms() == []
        assert desk.alarm_status(run_id) == 1

    def test_a_deleted_jobs_run_is_told_to_nobody(self, desk: Desk) -> None:
        job_id = desk.job()
        run_id = desk.run(job_id)
        desk.database.write(lambda session: session.delete(session.get_one(Job, job_id)))

        desk.end(run_id)

        assert desk.alarm_status(run_id) == 1

    def test_own_targets_come_before_the_apps_and_those_before_the_default(
        self, rows: Rows
    ) -> None:
        desk = Desk(rows, defaults=DEFAULTS)
        bare = desk.job("bare", alarm_email="")
        desk.change(App, rows.app("reports"), alarm_email="app@example.com")
        own = desk.job("own")
        other = rows.job("other", app="shop")

        for job_id in (own, bare, other):
            desk.fail(job_id)
        desk.round()

        assert [target for target, _ in desk.sent] == [
            "ops@example.com",
            "app@example.com",
            "boss@example.com",
        ]

    def test_the_alarm_is_gone_when_the_end_is_rolled_back(self, desk: Desk) -> None:
        run_id = desk.run(desk.job())
        completion = Completion(RunIds(desk.database), lambda: desk.now_ms)
        end = End(run_id=run_id, status=RunStatus.FAILED, message="m", finished_at=START)

        def unit(session: Any) -> None:
            completion.end(session, [end])
            session.rollback()

        desk.database.write(unit)

        assert desk.alarms() == []


class TestSending:
    def test_what_could_not_be_sent_is_tried_again_with_growing_pauses(self, desk: Desk) -> None:
        run_id = desk.fail(desk.job())
        desk.failure = OSError("connection refused")
        pauses = []

        for _ in range(9):
            desk.round()
            [alarm] = desk.alarms()
            pauses.append((alarm.next_try_at - desk.now_ms) // 1000)
            desk.now_ms = alarm.next_try_at
        desk.failure = None
        desk.round()

        assert pauses == [10, 20, 40, 80, 160, 320, 600, 600, 600]
        assert len(desk.sent) == 1
        assert desk.alarm_status(run_id) == 2

    def test_nothing_is_tried_before_its_time(self, desk: Desk) -> None:
        desk.fail(desk.job())
        desk.failure = OSError("no")
        desk.round()
        desk.failure = None

        desk.pass_time(9_999)
        desk.round()

        assert desk.sent == []
        assert [alarm.error for alarm in desk.alarms()] == ["no"]

    def test_after_a_day_it_is_given_up(self, desk: Desk) -> None:
        run_id = desk.fail(desk.job())
        desk.failure = OSError("connection refused")

        desk.round()
        desk.now_ms = START + GIVE_UP_MS - 30_000
        desk.round()
        assert desk.statuses() == [AlarmStatus.READY]
        desk.pass_time(20_001)
        desk.round()

        assert desk.statuses() == [AlarmStatus.GIVEN_UP]
        assert desk.alarm_status(run_id) == 3

    @pytest.mark.parametrize("broken", ["a@x.org", "b@x.org"])
    def test_the_worst_of_several_targets_counts(self, desk: Desk, broken: str) -> None:
        run_id = desk.fail(desk.job(alarm_email="a@x.org,b@x.org"))
        desk.failure, desk.broken = OSError("no"), {broken}
        desk.round()
        assert desk.alarm_status(run_id) == 2

        desk.pass_time(GIVE_UP_MS)
        desk.round()

        assert desk.alarm_status(run_id) == 3

    def test_who_dies_while_sending_leaves_it_to_another(self, desk: Desk) -> None:
        desk.fail(desk.job())
        desk.limiter.run_round(START)
        other = desk.sender(MessageKind.MAIL)
        desk.failure = SystemExit()
        with pytest.raises(SystemExit):
            desk.mailer.run_round(desk.now_ms)
        desk.failure = None

        assert other.run_round(desk.now_ms + CLAIM_MS - 1) > 0
        assert desk.sent == []
        assert other.run_round(desk.now_ms + CLAIM_MS) == 0
        assert len(desk.sent) == 1

    def test_a_sender_that_was_too_slow_does_not_spoil_what_another_noted(self, desk: Desk) -> None:
        desk.fail(desk.job())
        desk.limiter.run_round(START)
        other = desk.sender(MessageKind.MAIL)

        def overtaken(_alarm: Alarm, _message: Message) -> None:
            desk.send = desk.keep
            desk.pass_time(CLAIM_MS)
            other.run_round(desk.now_ms)
            raise OSError("too slow")

        desk.send = overtaken
        desk.mailer.run_round(desk.now_ms)

        assert desk.statuses() == [AlarmStatus.SENT]
        assert [alarm.error for alarm in desk.alarms()] == [None]

    def test_mails_do_not_wait_for_webhooks_nor_the_other_way_round(self, desk: Desk) -> None:
        desk.fail(desk.job(alarm_webhook="https://example.com/"))
        desk.limiter.run_round(START)

        assert desk.mailer.run_round(START) == 0
        assert desk.mailer.run_round(START) > 0
        assert desk.webhooks.run_round(START) == 0
        assert desk.webhooks.run_round(START) > 0

    def test_what_somebody_spoilt_in_the_database_holds_nothing_up(self, desk: Desk) -> None:
        job_id = desk.job()
        desk.fail(job_id, START)
        desk.fail(job_id, START + 1)
        desk.limiter.run_round(START)
        [spoilt, _] = desk.alarms()
        desk.change(Alarm, spoilt.id, content="{")

        desk.round()

        assert len(desk.sent) == 1
        assert desk.alarms()[0].error

    def test_an_address_that_cannot_be_written_to_holds_nothing_up(self, desk: Desk) -> None:
        mailer = Mailer(MailServer.parse("smtp://127.0.0.1?from=a@b"), domain="here")
        mistyped = desk.fail(desk.job("mistyped", alarm_email="ops@[mail.example.com"))
        desk.send = lambda alarm, said: (
            mailer.send(alarm, said) if "[" in alarm.target else desk.keep(alarm, said)
        )
        desk.round()

        desk.fail(desk.job("good"))
        for _ in range(2):
            desk.pass_time(GIVE_UP_MS // 2)
            desk.round()

        assert desk.subjects() == ["ops@example.com: [warren] reports/good failed: FAILED"]
        assert desk.statuses() == [AlarmStatus.GIVEN_UP, AlarmStatus.SENT]
        assert [alarm.tries for alarm in desk.alarms()] == [3, 1]
        assert desk.alarm_status(mistyped) == 3

    def test_a_recipient_that_is_refused_for_good_is_given_up_and_the_others_get_theirs_once(
        self, desk: Desk
    ) -> None:
        with Mailbox() as box, WebhookServer() as hook:
            box.refused, hook.status = {"gone@example.com": "550 no such user"}, 410
            mailer = Mailer(MailServer.parse(box.url), domain="here")
            ways = {"mail": mailer.send, "json": Webhook().send}
            desk.send = lambda alarm, said: ways[alarm.channel](alarm, said)
            emails = "gone@example.com,ops@example.com"
            run_id = desk.fail(desk.job(alarm_email=emails, alarm_webhook=hook.url))
            for _ in range(3):
                desk.round()
                desk.pass_time(HOUR_MS)

        assert [mail["To"] for mail in box.mails] == ["ops@example.com"]
        assert len(hook.posts) == 1
        told = {alarm.target: (alarm.status, alarm.tries, alarm.error) for alarm in desk.alarms()}
        assert told == {
            "gone@example.com": (
                AlarmStatus.GIVEN_UP,
                1,
                "the recipient was refused: 550 no such user; it is not sent again",
            ),
            "ops@example.com": (AlarmStatus.SENT, 1, None),
            hook.url: (AlarmStatus.GIVEN_UP, 1, "it answered 410; it is not sent again"),
        }
        assert desk.alarm_status(run_id) == 3

    def test_of_an_error_that_nobody_foresaw_only_its_kind_is_kept(self, desk: Desk) -> None:
        desk.fail(desk.job())
        desk.failure = RuntimeError("POST /hook?token=hush")

        desk.round()

        assert [alarm.error for alarm in desk.alarms()] == ["RuntimeError"]

    def test_mails_that_no_scheduler_can_send_are_given_up_after_a_day(self, desk: Desk) -> None:
        run_id = desk.fail(desk.job())
        desk.limiter.run_round(START)

        desk.pass_time(GIVE_UP_MS + 1)
        desk.limiter.run_round(desk.now_ms)

        [alarm] = desk.alarms()
        assert alarm.status == AlarmStatus.GIVEN_UP
        assert "WARREN_SMTP_URL" in (alarm.error or "")
        assert desk.alarm_status(run_id) == 3

    def test_a_mail_that_is_sent_at_the_last_moment_is_not_given_up(
        self, mariadb_schema_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        desk = Desk(Rows(mariadb_schema_url))
        run_id = desk.fail(desk.job())
        desk.limiter.run_round(START)
        desk.pass_time(GIVE_UP_MS + 1)
        expired = alarms.expired

        def overtaken(session: Session, **limits: int) -> Sequence[Alarm]:
            stale = expired(session, **limits)
            desk.mailer.run_round(desk.now_ms)
            return stale

        monkeypatch.setattr(alarms, "expired", overtaken)
        with capture_logs() as events:
            desk.limiter.run_round(desk.now_ms)

        assert desk.statuses() == [AlarmStatus.SENT]
        assert desk.alarm_status(run_id) == 2
        assert "alarms_withheld" not in [event["event"] for event in events]

    def test_old_alarms_are_deleted(self, desk: Desk) -> None:
        desk.fail(desk.job())
        desk.round()

        desk.pass_time(KEEP_MS + 1)
        desk.limiter.run_round(desk.now_ms)

        assert desk.alarms() == []


class TestTooMany:
    @pytest.fixture
    def desk(self, rows: Rows) -> Desk:
        return Desk(rows, per_hour=3)

    def test_so_many_are_sent_and_the_rest_is_told_when_the_hour_is_over(self, desk: Desk) -> None:
        job_id = desk.job()
        run_ids = []
        for number in range(10):
            run_ids.append(desk.fail(job_id, START + number))
            desk.round()
            desk.pass_time(1_000)
        desk.now_ms = START + HOUR_MS - 1
        desk.round()
        assert len(desk.sent) == 3

        desk.now_ms = START + HOUR_MS
        desk.round()

        assert desk.subjects()[3:] == [
            "ops@example.com: [warren] reports/nightly: 7 more alarms",
        ]
        assert f"{run_ids[-2]}, {run_ids[-1]} (the latest)" in desk.sent[3][1].text
        assert [desk.alarm_status(run_id) for run_id in run_ids] == [2] * 10

    def test_a_summary_is_told_once(self, desk: Desk) -> None:
        job_id = desk.job()
        for number in range(5):
            desk.fail(job_id, START + number)
        desk.round()

        for hours in range(1, 5):
            desk.now_ms = START + hours * HOUR_MS
            desk.round()

        assert len(desk.sent) == 4

    def test_no_hour_has_more_whenever_it_begins(self, desk: Desk) -> None:
        job_id = desk.job()
        sent_at: list[int] = []

        def send(alarm: Alarm, _: Message) -> str:
            if alarm.run_id:
                sent_at.append(desk.now_ms)
            return ""

        desk.send = send

        for minute in range(0, 200, 5):
            desk.now_ms = START + minute * 60_000
            desk.fail(job_id, desk.now_ms)
            desk.round()

        for first in sent_at:
            assert sum(first <= at < first + HOUR_MS for at in sent_at) <= 3
        assert len(sent_at) >= 9

    def test_each_job_and_each_target_has_its_own_count(self, desk: Desk) -> None:
        one = desk.job("one", alarm_email="a@x.org,b@x.org")
        two = desk.job("two", alarm_email="a@x.org")

        for number in range(5):
            desk.fail(one, START + number)
            desk.fail(two, START + number)
        desk.round()

        assert len(desk.sent) == 9

    def test_held_alarms_take_little_room(self, desk: Desk) -> None:
        job_id = desk.job()
        for number in range(5):
            run_id = desk.run(job_id, START + number)
            desk.end(run_id, message="m" * 5_000, log_tail="t" * 4_000)
        desk.limiter.run_round(START)

        assert [len(alarm.content) < 400 for alarm in desk.alarms()] == [False] * 3 + [True] * 2

    def test_a_summary_that_is_given_up_is_given_up_for_its_runs(self, desk: Desk) -> None:
        job_id = desk.job()
        run_ids = [desk.fail(job_id, START + number) for number in range(4)]
        desk.round()
        desk.pass_time(HOUR_MS)
        desk.failure = OSError("no")
        desk.round()
        summary = desk.alarms()[-1]
        desk.now_ms = summary.created_at + GIVE_UP_MS
        desk.change(Alarm, summary.id, next_try_at=desk.now_ms)

        desk.round()

        assert [desk.alarm_status(run_id) for run_id in run_ids] == [2, 2, 2, 3]

    def test_a_summary_that_no_scheduler_can_send_is_given_up_for_its_runs(
        self, desk: Desk
    ) -> None:
        job_id = desk.job()
        run_ids = [desk.fail(job_id, START + number) for number in range(4)]
        desk.round()
        desk.pass_time(HOUR_MS)
        desk.limiter.run_round(desk.now_ms)

        desk.pass_time(GIVE_UP_MS + 1)
        desk.limiter.run_round(desk.now_ms)

        assert [desk.alarm_status(run_id) for run_id in run_ids] == [2, 2, 2, 3]


@pytest.fixture
def watching(desk: Desk) -> "Watching":
    return Watching(desk)


class TestAbsence:
    """A clock of the test's own counts seconds; the database's counts with it."""

    def test_an_app_without_an_executor_is_told_once(self, watching: "Watching") -> None:
        watching.desk.job()

        watching.look(after=59.0)
        assert watching.told() == []
        for _ in range(20):
            watching.look(after=6.0)

        assert watching.told() == ["boss@example.com: [warren] reports: no executor online"]

    def test_that_one_is_back_is_told_once(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.look(after=61.0)

        watching.executor_beats()
        for _ in range(5):
            watching.look(after=6.0)
            watching.executor_beats()

        assert watching.told()[1:] == ["boss@example.com: [warren] reports: an executor is back"]

    def test_each_absence_is_told(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.look(after=61.0)
        watching.executor_beats()
        watching.look(after=6.0)

        watching.look(after=61.0)

        assert len(watching.told()) == 3

    def test_an_app_that_nobody_waits_for_is_not_told(self, watching: "Watching") -> None:
        watching.desk.job(is_enabled=0)
        watching.desk.rows.app("empty")

        watching.look(after=600.0)

        assert watching.told() == []

    def test_the_apps_own_targets_are_told_instead_of_the_default(
        self, watching: "Watching"
    ) -> None:
        desk = watching.desk
        desk.job()
        desk.change(App, desk.rows.app("reports"), alarm_email="app@example.com")

        watching.look(after=61.0)

        assert watching.told() == ["app@example.com: [warren] reports: no executor online"]

    def test_a_scheduler_that_is_not_well_says_nothing(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.roster.set_health(False)

        watching.look(after=600.0)

        assert watching.told() == []

    def test_what_another_scheduler_hears_is_believed(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.seconds += 60.0
        watching.desk.rows.executor("exec-1", START + 60_000 - 5_000, "")

        watching.look(after=1.0)

        assert watching.told() == []

    def test_several_schedulers_tell_it_once(self, watching: "Watching") -> None:
        watching.desk.job()
        other = Watching(watching.desk)

        for _ in range(3):
            watching.look(after=61.0)
            other.look(after=61.0)

        assert len(watching.told()) == 1

    def test_many_absences_in_an_hour_are_summed_up(self, watching: "Watching") -> None:
        watching.desk.job()

        for _ in range(8):
            watching.look(after=61.0)
            watching.executor_beats()
            watching.look(after=6.0)
        watching.desk.pass_time(HOUR_MS)

        assert len(watching.told()) == 11
        assert watching.told()[-1] == "boss@example.com: [warren] reports: 6 more alarms"


class TestHealthIssues:
    def test_what_lasts_at_an_executor_is_told_in_words(self, watching: "Watching") -> None:
        watching.desk.job()

        watching.report(HealthIssue.JOURNAL, HealthIssue.DISK, seconds=20)

        [line] = watching.told()
        assert line == (
            "boss@example.com: [warren] reports: executor exec-1 reports trouble: journal, disk"
        )

    def test_a_queue_that_cannot_be_reached_is_told(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.executor_beats()

        for _ in range(3):
            watching.roster.set_reachable("reports", "exec-1", is_reachable=False)
            watching.report(seconds=6)

        [line] = watching.told()
        assert line.endswith("reports: executor exec-1 reports trouble: queue")

    def test_what_passes_by_itself_is_not_told(self, watching: "Watching") -> None:
        watching.desk.job()

        for _ in range(5):
            watching.report(HealthIssue.CONTACT, seconds=6)
            watching.report(seconds=6)

        assert watching.told() == []

    def test_it_is_told_once_in_an_hour_however_many_schedulers_hear_it(
        self, watching: "Watching"
    ) -> None:
        watching.desk.job()
        other = Watching(watching.desk)

        for _ in range(5):
            watching.report(HealthIssue.DISK, seconds=60)
            other.report(HealthIssue.DISK, seconds=60)

        assert len(watching.told()) == 1

    def test_while_it_lasts_it_is_told_again_in_the_next_hour(self, watching: "Watching") -> None:
        watching.desk.job()

        watching.report(HealthIssue.DISK, seconds=20)
        watching.seconds += 3_600
        watching.report(HealthIssue.DISK, seconds=20)

        assert len(watching.told()) == 2

    def test_trouble_that_an_executor_repeats_counts_once(self, any_schema_url: str) -> None:
        watching = Watching(Desk(Rows(any_schema_url)))
        watching.desk.job()

        watching.report(*[HealthIssue.DISK, HealthIssue.JOURNAL] * 12, seconds=20)

        [line] = watching.told()
        assert line.endswith("reports trouble: journal, disk")

    def test_an_executor_that_nobody_waits_for_is_not_told(self, watching: "Watching") -> None:
        watching.desk.job(is_enabled=0)

        watching.report(HealthIssue.DISK, seconds=60)

        assert watching.told() == []

    def test_it_hides_no_absence_and_no_return(self, watching: "Watching") -> None:
        watching.desk.job()
        watching.look(after=61.0)
        watching.report(HealthIssue.DISK, seconds=20)

        watching.look(after=61.0)

        subjects = [line.partition("[warren] ")[2] for line in watching.told()]
        assert subjects == [
            "reports: no executor online",
            "reports: an executor is back",
            "reports: executor exec-1 reports trouble: disk",
            "reports: no executor online",
        ]

    def test_a_scheduler_whose_triggers_stay_unconfirmed_is_told_of_once_an_hour(
        self, watching: "Watching"
    ) -> None:
        watching.desk.job()
        watching.issues = [SelfIssue.UNCONFIRMED, SelfIssue.CANARY]
        watching.look(after=1.0)
        watching.look(after=9.0)
        early = watching.told()

        for _ in range(3):
            watching.look(after=1.0)
        within_an_hour = watching.told()
        watching.look(after=3600.0)

        about = "[warren] reports: scheduler node-1 reports trouble: unconfirmed"
        assert early == []
        assert [line.partition(": ")[2] for line in within_an_hour] == [about]
        assert "\n".join(watching.told()).count(about) == 2

    def test_a_stall_that_passes_within_ten_seconds_is_not_told_of(
        self, watching: "Watching"
    ) -> None:
        watching.desk.job()
        for issues in ([SelfIssue.UNCONFIRMED], [], [SelfIssue.UNCONFIRMED]):
            watching.issues = issues
            watching.look(after=6.0)

        assert watching.told() == []

    def test_trouble_of_many_executors_hides_no_absence_and_no_return(
        self, watching: "Watching"
    ) -> None:
        watching.desk.job()
        watching.desk.limiter = AlarmRateLimiter(database=watching.desk.database, per_hour=2)
        for health_issues in (
            [HealthIssue.DISK],
            [HealthIssue.JOURNAL],
            [HealthIssue.DISK, HealthIssue.JOURNAL],
        ):
            watching.report(*health_issues, seconds=20)

        watching.look(after=61.0)
        watching.executor_beats()
        watching.look(after=6.0)

        subjects = [line.partition("[warren] reports: ")[2] for line in watching.told()]
        assert subjects == [
            "executor exec-1 reports trouble: disk",
            "executor exec-1 reports trouble: journal",
            "no executor online",
            "an executor is back",
        ]


class Watching:
    """One scheduler's watch, and the time as it has it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.seconds = 0.0
        self.roster = Roster(lambda: self.seconds, timeouts=Timeouts(lapse=1e9))
        self.roster.set_health(True)
        desk.limiter.run_round(START)  # it makes the row that is locked
        self._watch = AbsenceWatch(
            database=desk.database,
            roster=self.roster,
            absence_seconds=60,
            defaults=DEFAULTS,
        )
        self._health = HealthIssueWatch(
            database=desk.database,
            roster=self.roster,
            defaults=DEFAULTS,
            node="node-1",
            issues=lambda: self.issues,
            clock=lambda: self.seconds,
        )
        #: What is wrong with this scheduler.
        self.issues: list[SelfIssue] = []

    def report(self, *health_issues: HealthIssue, seconds: int, step: int = 6) -> None:
        """Let the executor tell this for so long, and look at it."""
        for _ in range(0, seconds, step):
            self.executor_beats(health_issues)
            self.look(after=step)

    def look(self, *, after: float) -> None:
        self.seconds += after
        self.desk.now_ms = max(self.desk.now_ms, START + int(self.seconds * 1000))
        self._watch.run_round(self.desk.now_ms)
        self._health.run_round(self.desk.now_ms)

    def executor_beats(self, health_issues: tuple[HealthIssue, ...] = ()) -> None:
        who = {"app": "reports", "address": "exec-1", "boot_id": "b00t"}
        beat = Heartbeat(started_at_ms=1, load=Load(), health_issues=health_issues, **who)
        if not self.roster.hear(beat):
            self.roster.admit(beat)
            self.desk.rows.executor("exec-1", self.desk.now_ms, "")
        row = presence.Beat(
            kind=presence.EXECUTOR,
            app="reports",
            address="exec-1",
            boot_id="b00t",
            beat_at=self.desk.now_ms,
        )
        self.desk.database.write(lambda session: presence.renew(session, row))

    def told(self) -> list[str]:
        self.desk.round()
        return self.desk.subjects()


class TestMutes:
    """Somebody looks after a job."""

    @pytest.fixture
    def muted(self, desk: Desk) -> int:
        """A job that failed and was muted for a day."""
        job_id = desk.job()
        desk.fail(job_id)
        desk.round()
        desk.sent.clear()
        now_ms = desk.now_ms
        desk.database.write(lambda session: rebuild(session, [job_id], now_ms=now_ms))
        commands = acting(desk.database, lambda: desk.now_ms, who="anna").mutes
        commands.mute(job_id, until_ms=now_ms + DAY_MS, why="waiting for the bank")
        return job_id

    def test_alarms_of_a_muted_job_are_kept_but_not_sent(self, desk: Desk, muted: int) -> None:
        desk.fail(muted, START + 60_000)
        desk.round()

        assert desk.sent == []
        alarm = desk.alarms()[-1]
        assert alarm.status == AlarmStatus.DISMISSED
        assert (alarm.error or "").startswith("muted by anna until ")
        assert (alarm.error or "").endswith("waiting for the bank")

    def test_a_mute_ends_at_its_date(self, desk: Desk, muted: int) -> None:
        desk.pass_time(DAY_MS)
        desk.fail(muted, START + 60_000)
        desk.round()

        assert len(desk.sent) == 1

    def test_a_mute_ends_at_another_error(self, desk: Desk, muted: int) -> None:
        for number, message in enumerate(("disk full", "no luck"), 1):
            desk.end(desk.run(muted, START + number * 60_000), message=message)
            desk.round()

        assert len(desk.sent) == 2

    def test_a_mute_holds_for_an_error_that_an_alarm_does_not_tell_whole(self, desk: Desk) -> None:
        long_error = "Exception in job: " + "at com.example.Step.run " * 100
        job_id = desk.job()
        desk.end(desk.run(job_id), message=long_error)
        desk.round()
        desk.database.write(lambda session: rebuild(session, [job_id], now_ms=desk.now_ms))
        acting(desk.database, lambda: desk.now_ms).mutes.mute(job_id, until_ms=desk.now_ms + DAY_MS)

        desk.end(desk.run(job_id, START + 60_000), message=long_error)
        desk.round()

        assert len(desk.sent) == 1

    def test_a_mute_holds_if_the_last_attempt_was_killed(self, desk: Desk, muted: int) -> None:
        said = {"message": "no luck", "log_tail": "tail"}
        tick = START + 60_000
        desk.run(muted, tick, status=RunStatus.FAILED, retries_left=1, **said)
        second = desk.run(muted, tick, attempt=1, starts=1)
        desk.end(second, RunStatus.REFUSED, message="busy")
        desk.round()

        assert desk.sent == []

    def test_the_first_failure_ends_a_mute_of_a_job_that_did_not_fail(self, desk: Desk) -> None:
        job_id = desk.job()
        commands = acting(desk.database, lambda: desk.now_ms).mutes
        commands.mute(job_id, until_ms=desk.now_ms + DAY_MS)
        desk.fail(job_id)
        desk.round()

        assert len(desk.sent) == 1

    @pytest.mark.usefixtures("muted")
    def test_alarms_of_other_jobs_are_sent(self, desk: Desk) -> None:
        desk.fail(desk.job("other"), START + 60_000)
        desk.round()

        assert len(desk.sent) == 1

    def test_a_job_that_is_only_acknowledged_still_alarms(self, desk: Desk, muted: int) -> None:
        commands = acting(desk.database, lambda: desk.now_ms).mutes
        commands.mute(muted, until_ms=desk.now_ms + DAY_MS, silent=False)
        desk.fail(muted, START + 60_000)
        desk.round()

        assert len(desk.sent) == 1

    @pytest.mark.parametrize("days", [-1, 0, 31])
    def test_a_mute_lasts_thirty_days_at_most(self, desk: Desk, muted: int, days: int) -> None:
        commands = acting(desk.database, lambda: desk.now_ms).mutes

        with pytest.raises(Problem, match="within the next 30 days"):
            commands.mute(muted, until_ms=desk.now_ms + days * DAY_MS)

    def test_who_muted_what_is_in_the_audit_log(self, desk: Desk, muted: int) -> None:
        acting(desk.database, lambda: desk.now_ms, who="bert").mutes.unmute(muted)

        wanted = select(AuditEntry.who, AuditEntry.action).order_by(AuditEntry.id)
        found = desk.database.read(lambda session: [*session.execute(wanted)])
        assert found == [("anna", "job.mute"), ("bert", "job.unmute")]
