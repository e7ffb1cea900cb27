"""Jobs and apps as users describe them, in the same form for job file, API and console."""

from dataclasses import dataclass
from typing import Annotated

from warren.broker.messages.values import Block
from warren.scheduler.alarms.policy import NO_WEBHOOK, NOBODY, AlarmTargets, RunWebhook
from warren.scheduler.expectations.expectations import NOTHING, Expectations
from warren.scheduler.jobs.field_kinds import (
    Choice,
    Expected,
    Line,
    Number,
    Tags,
    Text,
    Texts,
    TimeZone,
    Webhook,
    YesOrNo,
)
from warren.scheduler.routing.built_in_routes import Route
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.sql.job_choices import LATE_LIMIT_SECONDS, NO_SCHEDULE, DeliveryGuarantee

#: The built-in routes; an installation may add more.
ROUTES = tuple(route.value for route in Route)
BLOCKS = tuple(Block)
MISFIRES = tuple(MisfirePolicy)
DELIVERIES = tuple(DeliveryGuarantee)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """The desired state of an app.

    Attributes:
        title: None = leave it unchanged.
        addresses: the executors to route to, in this order; empty = all that register.
        route: of its jobs that name none; empty = DEFAULT_ROUTE.
        alarm: who gets failure alarms of jobs without targets of their own, and the alarm that
            the app has no executor.
        webhook: receives the ends of runs of jobs without a webhook of their own.

    """

    name: str
    title: str | None = None
    addresses: tuple[str, ...] = ()
    route: str = ""
    alarm: AlarmTargets = NOBODY
    webhook: RunWebhook = NO_WEBHOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The desired state of a job. Each field is declared here and nowhere else.

    Everything else about a field follows from its name, type, default and kind: its rule, its place
    in a job file, in JSON and in the console's form, its column, how it is compared, and what the
    audit log stores of it. Durations are whole seconds.

    Attributes:
        schedule_kind: a kind of `scheduler/schedules/registry.py`, which reads `schedule_value`.
        timezone: empty = the scheduler's.
        route: empty = the app's, and without that DEFAULT_ROUTE.
        late_limit: how late a due time may still run as itself.
        script_language: a ScriptLanguage; such a job has a script and no `handler`.
        fresh_process: None = the executor decides.
        children: NAME of a job in the same app, or APP/NAME.
        enabled: None = leave the state unchanged; a new job is stopped.

    """

    name: Annotated[str, Line(255)]
    app: Annotated[str, Text(column="app_id", custom=True)]
    author: Annotated[str, Line(64)] = ""
    tags: Annotated[tuple[str, ...], Tags(10, 128)] = ()
    schedule_kind: Annotated[str, Text(group="schedule")] = NO_SCHEDULE
    schedule_value: Annotated[str, Text(group="schedule")] = ""
    timezone: Annotated[str, TimeZone(group="schedule")] = ""
    handler: Annotated[str, Line(255)] = ""
    script_language: Annotated[str, Text(group="script", column="script_type", custom=True)] = ""
    script_source: Annotated[str, Text(group="script", custom=True)] = ""
    script_remark: Annotated[str, Text(group="script", custom=True)] = ""
    param: Annotated[str, Text()] = ""
    route: Annotated[str, Choice(ROUTES)] = ""
    block: Annotated[str, Choice(BLOCKS)] = "SERIAL_EXECUTION"
    misfire: Annotated[str, Choice(MISFIRES)] = "DO_NOTHING"
    late_limit: Annotated[int, Number(5, 86_400, "s")] = LATE_LIMIT_SECONDS
    delivery: Annotated[str, Choice(DELIVERIES)] = DeliveryGuarantee.AT_MOST_ONCE
    concurrency: Annotated[int, Number(1, 1_000)] = 1
    timeout: Annotated[int, Number(0, 9_999_999, "s")] = 0
    retries: Annotated[int, Number(0, 1_000)] = 0
    retry_delay: Annotated[int, Number(0, 9_999_999, "s")] = 0
    fresh_process: Annotated[bool | None, YesOrNo()] = None
    children: Annotated[tuple[str, ...], Texts(column="child_ids", custom=True)] = ()
    alarm_emails: Annotated[tuple[str, ...], Texts(group="alarm", column="alarm_email")] = ()
    alarm_webhook: Annotated[str, Webhook(group="alarm", is_secret=True)] = ""
    alarm_style: Annotated[str, Text(group="alarm")] = ""
    webhook_url: Annotated[str, Webhook(group="webhook", is_secret=True)] = ""
    webhook_when: Annotated[str, Text(group="webhook")] = ""
    expect: Annotated[Expectations, Expected()] = NOTHING
    enabled: Annotated[bool | None, YesOrNo(column="is_enabled", custom=True)] = None

    @property
    def alarm(self) -> AlarmTargets:
        """Its alarm targets."""
        return AlarmTargets(
            emails=self.alarm_emails, webhook=self.alarm_webhook, style=self.alarm_style
        )

    @property
    def webhook(self) -> RunWebhook:
        """Its webhook for the ends of runs."""
        return RunWebhook(url=self.webhook_url, when=self.webhook_when)
