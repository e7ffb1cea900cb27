"""Alarms from a whole Warren: a job fails, and a mail server and a webhook hear of it."""

from typing import Any

from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.mailbox import Mailbox
from tests.support.webhook_server import Silence, WebhookServer
from warren.scheduler.alarms.addresses import MailServer
from warren.scheduler.alarms.events import AlarmPolicy, AlarmTargets
from warren.scheduler.jobs.spec import AppSpec, JobSpec
from warren.sql.alarms.alarms import AlarmStatus
from warren.sql.models import Alarm

OPS = AlarmTargets(emails=("ops@example.com",))


def policy(smtp_url: str, **options: Any) -> AlarmPolicy:
    return AlarmPolicy(mail_server=MailServer.parse(smtp_url), **options)


def kept(cluster: Cluster) -> list[Alarm]:
    return cluster.database.read(lambda session: list(session.query(Alarm).order_by(Alarm.id)))


def test_two_schedulers_tell_a_failure_once(cluster: Cluster) -> None:
    with Mailbox() as box, WebhookServer() as hook:
        console = "http://console.example.com"
        for _ in range(2):
            cluster.scheduler(alarms=policy(box.url, console_url=console))
        cluster.executor()
        cluster.wait_online()
        targets = {"alarm_emails": OPS.emails, "alarm_webhook": hook.url}
        cluster.job("bad", handler="fail", retries=1, **targets)

        run_id = cluster.trigger("bad")
        eventually(lambda: box.mails and hook.posts)
        eventually(lambda: [a.status for a in kept(cluster)] == [AlarmStatus.SENT] * 2)

        [mail], [post] = box.mails, hook.posts
        last = cluster.runs(origin_id=run_id)[-1]
        assert mail["Subject"] == f"[warren] {APP}/bad failed: FAILED"
        assert (post["about"], post["run_id"], post["attempts"]) == ("failure", last.id, 2)
        assert post["url"] == f"{console}/runs/{last.id}"
        assert [run.alarm_status for run in cluster.runs(origin_id=run_id)] == [0, 2]


@on_memory
def test_a_mail_server_that_hangs_delays_neither_runs_nor_webhooks(cluster: Cluster) -> None:
    with Silence() as server, WebhookServer() as hook:
        cluster.scheduler(alarms=policy(f"smtp://127.0.0.1:{server.port}?from=a@b"))
        cluster.executor()
        cluster.wait_online()
        cluster.job("bad", handler="fail", alarm_emails=OPS.emails, alarm_webhook=hook.url)
        cluster.job("good")
        cluster.trigger("bad")

        def all_else_is_done_while_a_mail_waits() -> bool:
            """It does not on a machine that takes longer than a mail waits: then the next may."""
            waiting = eventually(server.waiting)
            posts = len(hook.posts)
            for _ in range(5):
                assert cluster.wait_final(cluster.trigger("good")).status == "SUCCEEDED"
            cluster.trigger("bad")
            eventually(lambda: len(hook.posts) > posts)
            return waiting[0] in server.waiting()

        eventually(all_else_is_done_while_a_mail_waits)
        assert cluster.schedulers[0].failing_roles == []


@on_memory
def test_an_app_without_an_executor_is_told_and_its_return_too(cluster: Cluster) -> None:
    with Mailbox() as box:
        cluster.be_quick()
        cluster.commands().apply(
            [AppSpec(name=APP, alarm=OPS)],
            [JobSpec(name="daily", app=APP, handler="noop", **_daily(), enabled=True)],
            dry_run=False,
            prune=False,
        )
        cluster.scheduler(alarms=policy(box.url, absence_seconds=1.0))

        eventually(lambda: len(box.mails) == 1)
        cluster.executor()
        eventually(lambda: len(box.mails) == 2)

        assert [mail["Subject"] for mail in box.mails] == [
            f"[warren] {APP}: no executor online",
            f"[warren] {APP}: an executor is back",
        ]


@on_memory
def test_an_apps_targets_are_what_the_file_says(cluster: Cluster) -> None:
    def apply(alarm: AlarmTargets) -> list[tuple[str, tuple[str, ...]]]:
        app = AppSpec(name=APP, alarm=alarm)
        changes = cluster.commands().apply([app], [], dry_run=False, prune=False)
        return [(change.action, change.details) for change in changes]

    apply(OPS)

    assert apply(OPS) == []
    assert apply(AlarmTargets(webhook="https://example.com/")) == [("update", ("alarm",))]
    assert apply(AlarmTargets()) == [("update", ("alarm",))]


@on_memory
def test_without_a_mail_server_mails_wait_for_a_scheduler_that_has_one(cluster: Cluster) -> None:
    with Mailbox() as box:
        cluster.scheduler()
        cluster.executor()
        cluster.wait_online()
        cluster.job("bad", handler="fail", alarm_emails=OPS.emails)
        cluster.trigger("bad")
        eventually(lambda: [a.status for a in kept(cluster)] == [AlarmStatus.READY])

        cluster.scheduler(alarms=policy(box.url))

        eventually(lambda: len(box.mails) == 1)


def _daily() -> dict[str, str]:
    return {"schedule_kind": "CRON", "schedule_value": "0 0 0 * * ?"}
