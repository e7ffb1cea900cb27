"""Jobs and apps as users describe them, in the same form for job file, API and console.

`JobSpec` declares each field once. The kind of a field says which values it allows, how it is
stored and how it is shown; by that, specs are converted to and from jobs' rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Annotated, Any, get_args, get_type_hints

from warren.broker.messages import Block
from warren.broker.process_use import ProcessUse
from warren.scheduler.alarms.events import NO_TARGETS, NO_WEBHOOK, AlarmTargets, RunWebhook
from warren.scheduler.expectations import NO_EXPECTATIONS, Expectations
from warren.scheduler.flows.graph import Graph
from warren.scheduler.jobs.field_kinds import (
    Choice,
    Expected,
    Flow,
    LimitNames,
    Line,
    Number,
    Options,
    Secret,
    Share,
    Tags,
    Text,
    Texts,
    TimeZone,
    Webhook,
)
from warren.scheduler.routing.routes import Route
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import NO_OPTIONS, ScheduleOptions
from warren.scheduler.schedules.registry import newest_rule
from warren.scheduler.schedules.run_date import MAX_DAYS, MAX_MONTHS, MAX_WORKDAYS
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.sql.models import Job
from warren.sql.models.job_tables import (
    CATCH_UP_MOST,
    CATCH_UP_SECONDS,
    LATE_LIMIT_SECONDS,
    NO_SCHEDULE,
    Backoff,
    DeliveryGuarantee,
    Priority,
    Scope,
)

ROUTES = tuple(route.value for route in Route)
BLOCKS = tuple(Block)
MISFIRES = tuple(MisfirePolicy)
DELIVERIES = tuple(DeliveryGuarantee)
PROCESSES = tuple(ProcessUse)
BACKOFFS = tuple(Backoff)
SCOPES = tuple(Scope)
PRIORITIES = tuple(Priority)


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
    alarm: AlarmTargets = NO_TARGETS
    webhook: RunWebhook = NO_WEBHOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The desired state of a job. Each field is declared here and nowhere else.

    Everything else about a field follows from its name, type, default and kind: its rule, its place
    in a job file, in JSON and in the console's form, its column, how it is compared, and what the
    audit log stores of it. Durations are whole seconds.

    Attributes:
        schedule_kind: a kind of `scheduler/schedules/registry.py`, which reads `schedule_value`.
        schedule_options: what narrows and moves its ticks.
        timezone: empty = the scheduler's.
        run_date_days: how far the date of a run is from the day of its due time.
        run_date_months: the same in months, counted first.
        run_date_workdays: the same in working days of `run_date_calendar`, counted last.
        param_template: makes the param of each run when it is planned; instead of `param`.
        route: empty = the app's, and without that DEFAULT_ROUTE.
        late_limit: how late a due time may still run as itself.
        catch_up_within: how far back the misfire policy CATCH_UP catches up.
        catch_up_most: how many of the newest due times it catches up.
        flow: the graph of a flow, which has no `handler`: its run is the run of its nodes.
        alarm_secret: signs what goes to `alarm_webhook`. It is never read back: empty = leave it as
            it is; another webhook without one has none.
        script_language: a ScriptLanguage; such a job has a script and no `handler`.
        scope: where `concurrency` and `block` hold: in each executor, or in the whole cluster.
        limits: NAME or NAME:WEIGHT of limits that each run takes until it has ended.
        priority: which runs go first when more are due than can be sent or started.
        max_waiting: how many of its runs may wait; a due time beyond that is skipped. 0 = any.
        retry_delay: the wait before each retry; with an exponential backoff, before the first.
        retry_most: the longest wait of a backoff; 0 = MAX_WAIT_SECONDS.
        retry_jitter: the share of each wait that is left to chance.
        process: empty = as the handler says, and without that the executor.
        children: NAME of a job in the same app, or APP/NAME.
        enabled: None = leave the state unchanged; a new job is stopped.

    """

    name: Annotated[str, Line(255)]
    app: Annotated[str, Text(column="app_id", custom=True)]
    author: Annotated[str, Line(64)] = ""
    tags: Annotated[tuple[str, ...], Tags(10, 128)] = ()
    schedule_kind: Annotated[str, Text(group="schedule")] = NO_SCHEDULE
    schedule_value: Annotated[str, Text(group="schedule")] = ""
    schedule_options: Annotated[ScheduleOptions, Options(group="schedule")] = NO_OPTIONS
    timezone: Annotated[str, TimeZone(group="schedule")] = ""
    run_date_days: Annotated[int, Number(-MAX_DAYS, MAX_DAYS, group="run_date")] = 0
    run_date_months: Annotated[int, Number(-MAX_MONTHS, MAX_MONTHS, group="run_date")] = 0
    flow: Annotated[Graph | None, Flow()] = None
    run_date_workdays: Annotated[int, Number(-MAX_WORKDAYS, MAX_WORKDAYS, group="run_date")] = 0
    run_date_calendar: Annotated[str, Line(32, group="run_date")] = ""
    handler: Annotated[str, Line(255)] = ""
    script_language: Annotated[str, Text(group="script", column="script_type", custom=True)] = ""
    script_source: Annotated[str, Text(group="script", custom=True)] = ""
    script_remark: Annotated[str, Text(group="script", custom=True)] = ""
    param: Annotated[str, Text()] = ""
    param_template: Annotated[str, Text()] = ""
    route: Annotated[str, Choice(ROUTES)] = ""
    block: Annotated[str, Choice(BLOCKS)] = "SERIAL_EXECUTION"
    misfire: Annotated[str, Choice(MISFIRES)] = "DO_NOTHING"
    late_limit: Annotated[int, Number(5, 86_400, "s")] = LATE_LIMIT_SECONDS
    catch_up_within: Annotated[int, Number(60, 2_678_400, "s", group="catch_up")] = CATCH_UP_SECONDS
    catch_up_most: Annotated[int, Number(1, 10_000, group="catch_up")] = CATCH_UP_MOST
    delivery: Annotated[str, Choice(DELIVERIES)] = DeliveryGuarantee.AT_MOST_ONCE
    concurrency: Annotated[int, Number(1, 1_000)] = 1
    scope: Annotated[str, Choice(SCOPES)] = Scope.EXECUTOR
    limits: Annotated[tuple[str, ...], LimitNames()] = ()
    priority: Annotated[str, Choice(PRIORITIES)] = Priority.NORMAL
    max_waiting: Annotated[int, Number(0, 100_000, "runs")] = 0
    timeout: Annotated[int, Number(0, 9_999_999, "s")] = 0
    retries: Annotated[int, Number(0, 1_000)] = 0
    retry_delay: Annotated[int, Number(0, 9_999_999, "s")] = 0
    retry_backoff: Annotated[str, Choice(BACKOFFS, group="retry")] = Backoff.FIXED
    retry_most: Annotated[int, Number(0, 9_999_999, "s", group="retry")] = 0
    retry_jitter: Annotated[float, Share(group="retry")] = 0.0
    process: Annotated[str, Choice(PROCESSES)] = ""
    children: Annotated[tuple[str, ...], Texts(column="child_ids", custom=True)] = ()
    alarm_emails: Annotated[tuple[str, ...], Texts(group="alarm", column="alarm_email")] = ()
    alarm_webhook: Annotated[str, Webhook(group="alarm", is_secret=True)] = ""
    alarm_style: Annotated[str, Text(group="alarm")] = ""
    alarm_secret: Annotated[str, Secret(group="alarm", is_secret=True)] = ""
    webhook_url: Annotated[str, Webhook(group="webhook", is_secret=True)] = ""
    webhook_when: Annotated[str, Text(group="webhook")] = ""
    expect: Annotated[Expectations, Expected()] = NO_EXPECTATIONS
    enabled: Annotated[bool | None, Text(column="is_enabled", custom=True)] = None

    def __post_init__(self) -> None:
        # Only a kind that has several rules stores one.
        options = self.schedule_options
        if options.rule > 1 and newest_rule(self.schedule_kind, options) == 1:
            object.__setattr__(self, "schedule_options", options.by_rule(1))

    def by_rule(self, rule: int) -> "JobSpec":
        """Return the spec with another rule for its schedule, if the kind has it."""
        options = self.schedule_options
        rule = min(rule, newest_rule(self.schedule_kind, options))
        if rule == options.rule:
            return self
        return replace(self, schedule_options=options.by_rule(rule))

    @property
    def follows_old_rule(self) -> bool:
        """Whether its schedule follows an older rule than if it were edited now."""
        options = self.schedule_options
        return options.rule < newest_rule(self.schedule_kind, options)

    @property
    def alarm(self) -> AlarmTargets:
        return AlarmTargets(
            emails=self.alarm_emails,
            webhook=self.alarm_webhook,
            style=self.alarm_style,
            secret=self.alarm_secret,
        )

    @property
    def webhook(self) -> RunWebhook:
        return RunWebhook(url=self.webhook_url, when=self.webhook_when)

    @property
    def calendars(self) -> set[str]:
        """The calendars that its schedule and its run dates use."""
        return {self.schedule_options.calendar, self.run_date_calendar} - {""}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of `JobSpec`; `column` is the row's attribute, `default` None if there is none."""

    name: str
    type: Any
    default: Any
    kind: Text
    column: str

    @property
    def key(self) -> str:
        """Its key in a job file, within its group: `alarm_style` is `style`."""
        return self.name.removeprefix(f"{self.kind.group}_")

    @property
    def pointer(self) -> str:
        """Its place in a job file: `retry_most` is `retry/most`."""
        return f"{self.kind.group}/{self.key}" if self.kind.group else self.name

    @property
    def words(self) -> str:
        """Its name in edit summaries: `alarm_style` is `alarm style`."""
        return self.name.replace("_", " ", 1) if self.kind.group else self.name

    @property
    def title(self) -> str:
        """Its label beside a value, with spaces for underscores."""
        return self.name.replace("_", " ")

    def value(self, job: Job) -> Any:
        """Return the field's value in a row."""
        return self.kind.value(getattr(job, self.column))


def _declared() -> dict[str, Field]:
    hints = get_type_hints(JobSpec, include_extras=True)
    declared = {}
    for each in fields(JobSpec):
        type_, kind = get_args(hints[each.name])
        default = None if each.default is MISSING else each.default
        declared[each.name] = Field(each.name, type_, default, kind, kind.column or each.name)
    return declared


#: All fields by name, in the order of a job file.
FIELDS: Mapping[str, Field] = _declared()
#: Fields that are stored by writing their columns.
WRITTEN = tuple(field for field in FIELDS.values() if not field.kind.custom)
#: Fields whose kind restricts their values.
_RULED_KINDS = (Choice, Line, Number, Share, Tags)
RULED = tuple(field for field in FIELDS.values() if isinstance(field.kind, _RULED_KINDS))
_GROUP_NAMES = tuple(dict.fromkeys(field.kind.group for field in FIELDS.values()))
_BY_GROUP: Mapping[str, Mapping[str, Field]] = {
    group: {field.key: field for field in FIELDS.values() if field.kind.group == group}
    for group in _GROUP_NAMES
}
#: The fields at the top level of a job file, by key; and the groups in it, with theirs.
TOP = _BY_GROUP[""]
GROUPS = {group: fields for group, fields in _BY_GROUP.items() if group}
#: What the group `retry` of a job file may hold besides its own fields, by key: those that have a
#: short form at the top.
SHORT_RETRY: Mapping[str, Field] = {"times": FIELDS["retries"], "delay": FIELDS["retry_delay"]}
_STORED = attrgetter(*(field.column for field in WRITTEN))
_WANTED = attrgetter(*(field.name for field in WRITTEN))


def columns_of(spec: JobSpec, which: Iterable[Field] = WRITTEN) -> dict[str, object]:
    """Return the stored values of a spec's fields, by the row's attributes."""
    return {field.column: field.kind.stored(getattr(spec, field.name)) for field in which}


def facts_of(spec: JobSpec, zone: str) -> ScheduleFacts:
    """Return the schedule of a spec, in a zone if it names none."""
    options = spec.schedule_options.to_json() or ""
    return ScheduleFacts(spec.schedule_kind, spec.schedule_value, spec.timezone or zone, options)


def changed(job: Job, spec: JobSpec) -> list[Field]:
    """Return the fields in WRITTEN whose values in the row differ from the spec."""
    return [
        field
        for field, stored, value in zip(WRITTEN, _STORED(job), _WANTED(spec), strict=True)
        # Thousands of jobs are compared, so try the cheap comparison first.
        if stored != value and field.kind.value(stored) != value
    ]
