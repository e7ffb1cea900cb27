"""Jobs and apps as users describe them, in the same form for job file, API and console.

`JobSpec` declares each field once. The kind of a field says which values it allows, how it is
stored and how it is shown; by that, specs are converted to and from jobs' rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Annotated, Any, get_args, get_type_hints

from warren.broker.messages import Block
from warren.broker.process_use import ProcessUse
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.alarms.events import NO_TARGETS, NO_WEBHOOK, AlarmTargets, RunWebhook
from warren.scheduler.expectations import NO_EXPECTATIONS, Expectations
from warren.scheduler.flows.graph import Graph, stored_graph
from warren.scheduler.problems import Refused, counted
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

#: Characters shown of a changed value, and how many of them before the first difference.
SHOWN_LENGTH, BEFORE_DIFFERENCE = 60, 15
#: The changed nodes of a flow that are named.
SHOWN_NODES = 10


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, and the base of all kinds; NULL in a row is the empty text.

    Attributes:
        group: the mapping of the job file that holds the field; empty = the top level.
        column: the attribute of the row, if its name differs from the field's.
        custom: storing the field takes more than writing its column: a script has versions, and
            an enabled job has a next tick.
        is_secret: the audit log notes only whether the field is set.

    """

    _: KW_ONLY
    group: str = ""
    column: str = ""
    custom: bool = False
    is_secret: bool = False

    def stored(self, value: Any) -> Any:
        return value

    def value(self, stored: Any) -> Any:
        return stored or ""

    def shown(self, value: Any) -> str:
        """Return a value as people read it; empty = do not show it."""
        return str(value)

    def change(self, before: Any, after: Any) -> tuple[str, str]:
        """Return two different values as an edit summary shows them."""
        return _quoted(before, after)


@dataclass(frozen=True, slots=True)
class Line(Text):
    """One line of text without spaces at its ends, of up to `longest` characters."""

    longest: int


class TimeZone(Text):
    """The IANA name of a time zone; empty, NULL in a row, is the scheduler's zone."""

    __slots__ = ()

    def stored(self, value: str) -> str | None:
        """Return the name, or NULL for no zone."""
        return value or None


class Webhook(Text):
    """A URL that anybody who knows it can post to."""

    __slots__ = ()

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both without the secret part."""
        return _shown_webhook(before), _shown_webhook(after)


@dataclass(frozen=True, slots=True)
class Secret(Text):
    """A text that can be set but not read; empty = leave it as it is."""

    def stored(self, value: str) -> str | None:
        """Return the text, or NULL for none."""
        return value or None

    def value(self, _stored: str | None) -> str:
        return ""

    def change(self, _before: str, after: str) -> tuple[str, str]:
        """Describe that it was replaced or removed."""
        return "***", "***" if after else "none"


class Texts(Text):
    """Several texts, separated by commas in a row."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str:
        """Return the texts joined by commas."""
        return ",".join(value)

    def value(self, stored: str | None) -> tuple[str, ...]:
        return tuple(text for text in (stored or "").split(",") if text)

    def shown(self, value: Sequence[str]) -> str:
        """Return the texts as a list for people."""
        return ", ".join(value)

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Return both in their stored form."""
        return _quoted(self.stored(before), self.stored(after))


class LimitNames(Texts):
    """Limits that runs take, each as NAME or NAME:WEIGHT."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str | None:  # type: ignore[override] # NULL: no limit
        """Return the texts joined by commas, or NULL for none."""
        return ",".join(value) or None

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Return both as lists, without quotes."""
        return ", ".join(before) or "none", ", ".join(after) or "none"


@dataclass(frozen=True, slots=True)
class Tags(Texts):
    """Up to `most` short words, each once, of up to `longest` characters with their commas."""

    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of the `known` names."""

    known: tuple[str, ...]

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both as they are, without quotes; one that was not chosen is the default."""
        return before or "default", after or "default"


@dataclass(frozen=True, slots=True)
class Number(Text):
    """A whole number from `least` to `most`; with a `unit`, 0 means none."""

    least: int
    most: int
    unit: str = ""

    def value(self, stored: int) -> int:
        return stored

    def shown(self, value: int) -> str:
        if not self.unit:
            return str(value)
        return f"{value} {self.unit}" if value else "none"

    def change(self, before: int, after: int) -> tuple[str, str]:
        """Return both in digits."""
        return str(before), str(after)


class Share(Text):
    """A share from 0 to 1 with up to two decimals; stored in percent."""

    __slots__ = ()

    def stored(self, value: float) -> int:
        """Return the share in percent."""
        return round(value * 100)

    def value(self, stored: int) -> float:
        return stored / 100

    def shown(self, value: float) -> str:
        """Return the share as a number; empty for none."""
        return f"{value:g}" if value else ""

    def change(self, before: float, after: float) -> tuple[str, str]:
        """Return both as numbers."""
        return f"{before:g}", f"{after:g}"


class Expected(Text):
    """What is expected of the job: stored as JSON with the rules that are set, or NULL."""

    __slots__ = ()

    def stored(self, value: Expectations) -> str | None:
        """Return the JSON, or NULL for nothing."""
        return value.to_json()

    def value(self, stored: str | None) -> Expectations:
        return Expectations.from_json(stored)

    def change(self, before: Expectations, after: Expectations) -> tuple[str, str]:
        """Return both as one line, without quotes."""
        return str(before) or "nothing", str(after) or "nothing"


class Flow(Text):
    """The graph of a flow, None for another job: stored as JSON, or NULL."""

    __slots__ = ()

    def stored(self, value: Graph | None) -> str | None:
        """Return the canonical JSON, or NULL for none."""
        return None if value is None else value.to_json()

    def value(self, stored: str | None) -> Graph | None:
        """Return the graph of a row; without nodes if it is corrupt in the database."""
        if stored is None:
            return None
        try:
            return stored_graph(stored)
        except Refused:
            return Graph({})

    def shown(self, value: Graph | None) -> str:
        """Return the graph as JSON."""
        return self.stored(value) or ""

    def change(self, before: Graph | None, after: Graph | None) -> tuple[str, str]:
        """Return which nodes change."""
        old, new = (graph.nodes if graph else {} for graph in (before, after))
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        more = ["…"] if len(changed) > SHOWN_NODES else []
        nodes = ", ".join([*changed[:SHOWN_NODES], *more])
        told = counted(len(new), "node")
        return counted(len(old), "node"), f"{told} (changed: {nodes or 'their order'})"


class Options(Text):
    """The options of a schedule: stored as JSON with those that are set, or NULL."""

    __slots__ = ()

    def stored(self, value: ScheduleOptions) -> str | None:
        """Return the JSON, or NULL for none."""
        return value.to_json()

    def value(self, stored: str | None) -> ScheduleOptions:
        return ScheduleOptions.from_json(stored)

    def shown(self, value: ScheduleOptions) -> str:
        """Return the options, and the rule if it is not the first."""
        rule = f"rule {value.rule}" if value.rule > 1 else ""
        return ", ".join(filter(None, (str(value), rule)))

    def change(self, before: ScheduleOptions, after: ScheduleOptions) -> tuple[str, str]:
        """Return both as one line, without quotes."""
        return str(before) or "none", str(after) or "none"


def _quoted(before: str, after: str) -> tuple[str, str]:
    """Return two texts in quotes; of long ones, only the part around the first difference."""
    if max(len(before), len(after)) <= SHOWN_LENGTH:
        return repr(before), repr(after)
    both = list(zip(before, after, strict=False))
    alike = next((at for at, (number, other) in enumerate(both) if number != other), len(both))
    start = max(0, alike - BEFORE_DIFFERENCE)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN_LENGTH
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _shown_webhook(url: str) -> str:
    """Return the part of a webhook's URL that is not secret."""
    return without_secret(url) if url else "none"


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


def is_duration(field: Field) -> bool:
    """Whether a field is a number of seconds."""
    return isinstance(field.kind, Number) and field.kind.unit == "s"


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
