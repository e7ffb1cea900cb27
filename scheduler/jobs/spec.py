"""What a user says about a job: one value for job file, command line and console."""

from dataclasses import dataclass
from typing import Annotated

from broker.messages import Block
from scheduler.alarms.policy import NO_WEBHOOK, NOBODY, AlarmTargets, RunWebhook
from scheduler.jobs.field_kinds import (
    Choice,
    Line,
    Number,
    Tags,
    Text,
    Texts,
    TimeZone,
    Webhook,
    YesOrNo,
)
from scheduler.routing.choice import Route
from scheduler.schedules.misfire import MisfirePolicy
from sql.job_choices import NO_SCHEDULE, DeliveryGuarantee

#: XXL-JOB's routes; an installation may add more.
ROUTES = tuple(route.value for route in Route)
BLOCKS = tuple(Block)
MISFIRES = tuple(MisfirePolicy)
DELIVERIES = tuple(DeliveryGuarantee)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """An app as somebody wants it; `title` None = leave it as it is.

    `addresses` are the executors to route to, in this order; none = all that register.
    `alarm` is told of failures of its jobs that name nobody, and that it has no executor.
    `webhook` hears of the ends of runs of its jobs that name none.
    """

    name: str
    title: str | None = None
    addresses: tuple[str, ...] = ()
    alarm: AlarmTargets = NOBODY
    webhook: RunWebhook = NO_WEBHOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its author wants it. Each field is declared here and nowhere else.

    From name, type, default and kind follow its rule, its place in a job file, in JSON and in the
    console's form, its column, what counts as a change of it, and what the audit log keeps of it.

    `schedule_kind` is one of `scheduler.schedules.registry`, `schedule_value` what it reads.
    `timezone` "" = the scheduler's. Durations are whole seconds.
    A job with a `script_language` (a ScriptLanguage) has a script and no `handler`.
    `fresh_process` None = as its executor has it.
    `children` are NAME of a job in the same app, or APP/NAME.
    `enabled` None = leave the state as it is, stopped when new.
    """

    name: Annotated[str, Line(255)]
    app: Annotated[str, Text(column="app_id", apart=True)]
    author: Annotated[str, Line(64)] = ""
    tags: Annotated[tuple[str, ...], Tags(10, 128)] = ()
    schedule_kind: Annotated[str, Text(group="schedule")] = NO_SCHEDULE
    schedule_value: Annotated[str, Text(group="schedule")] = ""
    timezone: Annotated[str, TimeZone(group="schedule")] = ""
    handler: Annotated[str, Line(255)] = ""
    script_language: Annotated[str, Text(group="script", column="script_type", apart=True)] = ""
    script_source: Annotated[str, Text(group="script", apart=True)] = ""
    script_remark: Annotated[str, Text(group="script", apart=True)] = ""
    param: Annotated[str, Text()] = ""
    route: Annotated[str, Choice(ROUTES)] = "FIRST"
    block: Annotated[str, Choice(BLOCKS)] = "SERIAL_EXECUTION"
    misfire: Annotated[str, Choice(MISFIRES)] = "DO_NOTHING"
    delivery: Annotated[str, Choice(DELIVERIES)] = DeliveryGuarantee.AT_MOST_ONCE
    concurrency: Annotated[int, Number(1, 1_000)] = 1
    timeout: Annotated[int, Number(0, 9_999_999, "s")] = 0
    retries: Annotated[int, Number(0, 1_000)] = 0
    retry_delay: Annotated[int, Number(0, 9_999_999, "s")] = 0
    fresh_process: Annotated[bool | None, YesOrNo()] = None
    children: Annotated[tuple[str, ...], Texts(column="child_ids", apart=True)] = ()
    alarm_emails: Annotated[tuple[str, ...], Texts(group="alarm", column="alarm_email")] = ()
    alarm_webhook: Annotated[str, Webhook(group="alarm", is_secret=True)] = ""
    alarm_style: Annotated[str, Text(group="alarm")] = ""
    webhook_url: Annotated[str, Webhook(group="webhook", is_secret=True)] = ""
    webhook_when: Annotated[str, Text(group="webhook")] = ""
    enabled: Annotated[bool | None, YesOrNo(column="is_enabled", apart=True)] = None

    @property
    def alarm(self) -> AlarmTargets:
        """Its alarm targets."""
        return AlarmTargets(
            emails=self.alarm_emails, webhook=self.alarm_webhook, style=self.alarm_style
        )

    @property
    def webhook(self) -> RunWebhook:
        """What it wants to hear of its ends."""
        return RunWebhook(url=self.webhook_url, when=self.webhook_when)
