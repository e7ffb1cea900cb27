"""The rules for jobs and apps, for job file, command line, console and API alike."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warren.broker.messages import ADDRESS_PATTERN, APP_PATTERN, ScriptLanguage
from warren.broker.process_use import ProcessUse
from warren.scheduler import expectations
from warren.scheduler.alarms.targets import target_problems, webhook_problems
from warren.scheduler.cron.wall_clock import check_zone, load_zone
from warren.scheduler.flows.graph import FIELD as FLOW
from warren.scheduler.flows.graph import MAX_NODES
from warren.scheduler.jobs.new_run import sample_param
from warren.scheduler.jobs.param_schema import check_param
from warren.scheduler.jobs.script_cache import REMARK_LENGTH, check_source
from warren.scheduler.jobs.spec import (
    FIELDS,
    GROUPS,
    PROCESSES,
    ROUTES,
    RULED,
    SHORT_RETRY,
    AppSpec,
    Choice,
    Field,
    JobSpec,
    Line,
    Number,
    Share,
    Tags,
)
from warren.scheduler.limits import MAX_LIMITS, parse_use
from warren.scheduler.names import invisible_in, is_line
from warren.scheduler.problems import (
    Code,
    FieldName,
    Problem,
    Word,
    found,
    refusal,
    unknown_word,
)
from warren.scheduler.routing.routes import Route
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import CALENDAR_PATTERN
from warren.scheduler.schedules.reading import read_schedule
from warren.scheduler.schedules.registry import KINDS, WAITING_KINDS
from warren.scheduler.schedules.schedule import ScheduleFacts
from warren.scheduler.schedules.working_days import ALWAYS, Calendars, every_day_until
from warren.sql.models.job_tables import Backoff, Scope

LANGUAGES = tuple(ScriptLanguage)

#: The lengths of the columns.
_MAX_LENGTHS = {"timezone": 64, "schedule": 128, "title": 64, "addresses": 65_535, "limits": 255}
#: Words that paths of the API have in the place of apps' names.
RESERVED_APP_NAMES = frozenset({"by-id"})
#: The most children of a job.
CHILDREN = 1_000
#: Tags are stored separated by commas, and appear in links.
_TAG = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f]{1,32}")


def problems(spec: JobSpec, *, now_ms: int, added_routes: Sequence[str] = ()) -> list[Problem]:
    """Return everything that is wrong with a job.

    A cron expression must fire again after `now_ms`; `added_routes` are the installation's own
    routes that are not built in.
    """
    return [
        *_of_kinds(spec, added_routes),
        *_names(spec),
        *found(lambda: check_param(spec.param)),
        *found(lambda: sample_param(spec, now_ms, calendars=_any_calendars(spec))),
        *target_problems(spec.alarm),
        *webhook_problems(spec.webhook),
        *expectations.expectation_problems(
            spec.expect,
            schedule_kind=spec.schedule_kind,
            schedule_value=spec.schedule_value,
            timeout_seconds=spec.timeout,
        ),
        *retry_problems(spec),
        *_catch_up(spec),
        *_script(spec),
        *_flow(spec),
        *_children(spec),
        *_limits(spec),
        *found(lambda: check_app_name(spec.app)),
        *found(lambda: _check_timezone(spec.timezone), "schedule/timezone"),
        *_schedule(spec, now_ms),
        *found(lambda: _check_run_date(spec)),
    ]


def sound_specs(
    specs: Iterable[JobSpec], *, now_ms: int, added_routes: Sequence[str]
) -> tuple[list[JobSpec], list[str]]:
    """Return the valid jobs, and a line for each invalid one with the reason.

    Further lines name the valid jobs that have one of the others as a child.
    """
    sound: list[JobSpec] = []
    lines: dict[str, str] = {}
    for spec in specs:
        wrong = problems(spec, now_ms=now_ms, added_routes=added_routes)
        if wrong:
            name = f"{spec.app}/{spec.name}"
            lines[name] = f"job {name!r} is left out: {wrong[0]}"
        else:
            sound.append(spec)
    parents = [
        f"job {f'{spec.app}/{spec.name}'!r} still names its child {child!r}, which is left out"
        for spec in sound
        for child in (child if "/" in child else f"{spec.app}/{child}" for child in spec.children)
        if child in lines
    ]
    return sound, [*lines.values(), *parents]


def new_name_problems(name: str) -> Iterator[Problem]:
    """Yield what is wrong with a new job's name, apart from what is wrong with any."""
    if got := invisible_in(name):
        yield Problem(Code.INVISIBLE, "name", got=got)


def check_app_name(name: str) -> None:
    """Raise Problem unless the name matches APP_PATTERN."""
    if not re.fullmatch(APP_PATTERN, name):
        raise Problem(Code.APP_NAME, "app", pattern=APP_PATTERN, got=name[:100])


def check_new_app_name(name: str) -> None:
    """Raise Problem unless an app may be created with this name."""
    check_app_name(name)
    if name in RESERVED_APP_NAMES:
        raise Problem(Code.APP_NAME_RESERVED, "name", got=name)


def check_title(title: str) -> None:
    """Raise Problem if an app's title is too long or has control characters."""
    if not is_line(title, _MAX_LENGTHS["title"]):
        raise Problem(Code.TITLE, "title", most=_MAX_LENGTHS["title"], got=title[:100])


def check_app_route(route: str, added_routes: Sequence[str]) -> None:
    """Raise Problem unless jobs of an app may have this route by default; empty = the default.

    Only a job itself may say that it is a broadcast.
    """
    known = [route for route in (*ROUTES, *added_routes) if route != Route.SHARDING_BROADCAST]
    if route and route not in known:
        raise unknown_word("route", FieldName("route"), route, known)


def app_problems(
    app: AppSpec, *, is_new: bool = False, added_routes: Sequence[str] = ()
) -> list[Problem]:
    """Return everything that is wrong with an app."""
    check_name = check_new_app_name if is_new else check_app_name
    return [
        *found(lambda: check_name(app.name), "name"),
        *found(lambda: check_title(app.title or "")),
        *address_problems(app.addresses),
        *found(lambda: check_app_route(app.route, added_routes)),
        *target_problems(app.alarm),
        *webhook_problems(app.webhook),
    ]


def address_problems(addresses: Sequence[str]) -> Iterator[Problem]:
    """Yield what is wrong with an app's list of executors."""
    for address, count in Counter(addresses).items():
        if not re.fullmatch(ADDRESS_PATTERN, address):
            yield Problem(Code.ADDRESS, "addresses", pattern=ADDRESS_PATTERN, got=address[:100])
        elif count > 1:
            yield Problem(Code.ADDRESS_TWICE, "addresses", got=address[:100])
    length, most = len(",".join(addresses)), _MAX_LENGTHS["addresses"]
    if length > most:
        yield Problem(Code.ADDRESSES_TOO_LONG, "addresses", most=most, got=length)


def process_of(process: str, fresh_process: bool | None) -> str:
    """Return `process`, or its value by the older name `fresh_process`; None = neither is given.

    Raises:
        Problem: both are given, and they contradict each other.

    """
    if fresh_process is None:
        return process
    meant = ProcessUse.FRESH if fresh_process else ProcessUse.JOB
    if process in PROCESSES and process != meant:
        facts = {"got": process, "older": str(fresh_process).lower(), "meant": str(meant)}
        raise Problem(Code.PROCESS_CONTRADICTED, "process", **facts)
    return process or meant


def group_problems(values: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with some fields of a group alone, by their names.

    Of a group with other fields that cannot be read, nothing more can be said.
    """
    for field in RULED:
        if field.name in values:
            yield from _of_kind(field, values[field.name], ())


def _of_kinds(spec: JobSpec, added_routes: Sequence[str]) -> Iterator[Problem]:
    for field in RULED:
        if (value := getattr(spec, field.name)) != field.default:
            yield from _of_kind(field, value, added_routes)


def _of_kind(field: Field, value: Any, added_routes: Sequence[str]) -> Iterator[Problem]:
    kind, what, at = field.kind, FieldName(field.name), field.pointer
    if isinstance(kind, Choice):
        known = (*kind.known, *added_routes) if what == "route" else kind.known
        if value not in known:
            yield unknown_word(at, what, value, known)
    elif isinstance(kind, Number) and not kind.least <= value <= kind.most:
        bounds = {"least": kind.least, "most": kind.most}
        yield Problem(Code.INTEGER, at, what=what, **bounds, got=value)
    elif isinstance(kind, Share) and not (0 <= value <= 1 and value == round(value, 2)):
        yield Problem(Code.SHARE, at, what=what, got=value)
    elif isinstance(kind, Tags):
        yield from _tags(value, kind)
    elif isinstance(kind, Line) and not (is_line(value, kind.longest) and value == value.strip()):
        yield Problem(Code.LINE, at, what=what, most=kind.longest, got=value[:100])


def _tags(tags: Sequence[str], kind: Tags) -> Iterator[Problem]:
    if len(tags) > kind.most or len(",".join(tags)) > kind.longest:
        yield Problem(Code.TAGS, "tags", most=kind.most, longest=kind.longest)
        return
    for tag, count in Counter(tags).items():
        if not _TAG.fullmatch(tag):
            yield Problem(Code.TAG, "tags", got=tag[:100])
        elif count > 1:
            yield Problem(Code.TAG_TWICE, "tags", got=tag)


def _names(spec: JobSpec) -> Iterator[Problem]:
    needs_handler = not spec.script_language and spec.flow is None
    for field in ("name", "handler") if needs_handler else ("name",):
        if not getattr(spec, field):
            yield Problem(Code.EMPTY, field, what=FieldName(field))
    if "/" in spec.name:
        yield Problem(Code.SLASH, "name", got=spec.name[:100])


def _script(spec: JobSpec) -> Iterator[Problem]:
    if not spec.script_language:
        return
    if spec.handler:
        yield Problem(Code.HANDLER_AND_SCRIPT, "script")
    if spec.script_language not in LANGUAGES:
        yield unknown_word("script/language", Word.LANGUAGE, spec.script_language, LANGUAGES)
    yield from found(lambda: check_source(spec.script_source))
    if "\0" in spec.param:
        yield Problem(Code.PARAM_OF_SCRIPT, "param")
    if spec.process == ProcessUse.HANDLER:
        yield Problem(Code.PROCESS_OF_SCRIPT, "process", got=spec.process)
    remark, most = spec.script_remark, REMARK_LENGTH
    if not is_line(remark, most):
        yield Problem(Code.LINE, "script/remark", what=Word.REMARK, most=most, got=remark[:100])


def _flow(spec: JobSpec) -> Iterator[Problem]:
    if spec.flow is None:
        return
    if spec.handler or spec.script_language:
        yield Problem(Code.FLOW_AND_HANDLER, FLOW)
    if not spec.flow.nodes:
        yield Problem(Code.FLOW_SIZE, FLOW, most=MAX_NODES, got=0)
    if spec.limits:
        yield Problem(Code.FLOW_LIMITS, "limits")
    if spec.scope == Scope.CLUSTER:
        yield Problem(Code.FLOW_SCOPE, "scope")


def _catch_up(spec: JobSpec) -> Iterator[Problem]:
    if spec.misfire != MisfirePolicy.CATCH_UP:
        if any(getattr(spec, field.name) != field.default for field in GROUPS["catch_up"].values()):
            yield Problem(Code.CATCH_UP_UNUSED, "catch_up", got=spec.misfire)
    elif spec.schedule_kind in WAITING_KINDS:
        yield Problem(Code.CATCH_UP_DELAY, "misfire")


def _children(spec: JobSpec) -> Iterator[Problem]:
    if len(spec.children) > CHILDREN:
        count = len(spec.children)
        yield Problem(Code.TOO_MANY_CHILDREN, "children", most=CHILDREN, got=count)
        return
    seen = set()
    for child in spec.children:
        if not child.rpartition("/")[2] or child != child.strip():
            yield Problem(Code.CHILD_NAME, "children", got=child[:100])
        elif child in seen:
            yield Problem(Code.CHILD_TWICE, "children", got=child[:100])
        seen.add(child)


def _schedule(spec: JobSpec, now_ms: int) -> Sequence[Problem]:
    wrong = found(lambda: _check_schedule(spec, now_ms))
    return [problem.at(f"schedule/{problem.field}".rstrip("/")) for problem in wrong]


def _any_calendars(spec: JobSpec) -> Calendars:
    """Return a stand-in for each calendar of a job, as a job that is stored is checked again."""
    names = (spec.schedule_options.calendar, spec.run_date_calendar)
    return {name: every_day_until(ALWAYS) for name in names if name}


def _check_run_date(spec: JobSpec) -> None:
    name = spec.run_date_calendar
    if spec.run_date_workdays and not name:
        raise Problem(Code.RUN_DATE_WITHOUT_CALENDAR, "run_date/calendar")
    if name and not re.fullmatch(CALENDAR_PATTERN, name):
        facts = {"pattern": CALENDAR_PATTERN, "got": name[:100]}
        raise Problem(Code.CALENDAR_NAME, "run_date/calendar", **facts)


def _limits(spec: JobSpec) -> Iterator[Problem]:
    if spec.scope == Scope.CLUSTER and spec.route == Route.SHARDING_BROADCAST:
        yield Problem(Code.SCOPE_OF_BROADCAST, "scope", route=spec.route)
    if len(spec.limits) > MAX_LIMITS or len(",".join(spec.limits)) > _MAX_LENGTHS["limits"]:
        facts = {"most": MAX_LIMITS, "longest": _MAX_LENGTHS["limits"]}
        yield Problem(Code.LIMITS_TOO_MANY, "limits", **facts)
        return
    seen = set()
    for text in spec.limits:
        use = parse_use(text)
        if use is None:
            yield Problem(Code.LIMIT_USE, "limits", got=text[:100])
        elif use.name in seen:
            yield Problem(Code.LIMIT_TWICE, "limits", got=use.name)
        seen.add(use and use.name)


def _check_timezone(name: str) -> None:
    if len(name) > _MAX_LENGTHS["timezone"]:
        raise Problem(Code.TIMEZONE_TOO_LONG, got=name[:100])
    if name:
        check_zone(name)


def _check_schedule(spec: JobSpec, now_ms: int) -> None:
    if len(spec.schedule_value) > _MAX_LENGTHS["schedule"]:
        length = len(spec.schedule_value)
        raise Problem(Code.SCHEDULE_TOO_LONG, most=_MAX_LENGTHS["schedule"], got=length)
    # A wrong time zone is reported separately; the expression can be read in any zone.
    zone = "UTC" if found(lambda: load_zone(spec.timezone or "UTC")) else spec.timezone or "UTC"
    options = spec.schedule_options
    facts = ScheduleFacts(spec.schedule_kind, spec.schedule_value, zone, options.to_json() or "")
    if options and (wrong := [*options.problems()]):
        kind = KINDS.get(spec.schedule_kind)
        raise refusal([*wrong, *found(lambda: kind and kind.read(spec.schedule_value, zone))])
    read_schedule(facts, _any_calendars(spec)).check_new(now_ms)


_RETRY_DELAY, _RETRY_MOST, _RETRY_BACKOFF = (
    FIELDS[name] for name in ("retry_delay", "retry_most", "retry_backoff")
)


def retry_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield what does not fit together in a job's retries."""
    if spec.retry_most and spec.retry_most < spec.retry_delay:
        facts = {
            "what": FieldName(_RETRY_MOST.name),
            "delay": spec.retry_delay,
            "got": spec.retry_most,
        }
        yield Problem(Code.RETRY_MOST, _RETRY_MOST.pointer, **facts)
    if spec.retry_backoff == Backoff.EXPONENTIAL and not spec.retry_delay:
        yield Problem(Code.RETRY_DELAY, _RETRY_BACKOFF.pointer)


def in_short(short: Mapping[str, int], group: Mapping[str, int]) -> dict[str, int]:
    """Return `retries` and `retry_delay` as the group `retry` says them with its own keys.

    Args:
        short: those that are given in short, by their names.
        group: what is given in the group, by key.

    Raises:
        Problem: one is given in both forms, with different values.

    """
    meant = {SHORT_RETRY[key].name: value for key, value in group.items() if key in SHORT_RETRY}
    for key, field in SHORT_RETRY.items():
        said = short.get(field.name)
        if said is not None and meant.get(field.name, said) != said:
            facts = {"short": field.name, "said": said, "key": key, "got": group[key]}
            raise Problem(Code.RETRY_CONTRADICTED, f"retry/{key}", **facts)
    return meant
