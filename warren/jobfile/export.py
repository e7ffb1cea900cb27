"""Writes jobs as a job file; applying it changes nothing.

Texts become readable YAML that is read back as exactly the same text.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import yaml

from warren.jobfile.sources import escape_places, escape_unseen, is_unseen
from warren.scheduler.alarms.events import AlarmTargets, RunWebhook
from warren.scheduler.calendars.calendar_spec import CalendarSpec
from warren.scheduler.expectations import Expectations
from warren.scheduler.jobs.spec import FIELDS, GROUPS, SHORT_RETRY, AppSpec, Field, JobSpec
from warren.scheduler.limits import LimitSpec
from warren.scheduler.schedules.registry import shown_as

INDENT = 2

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*", re.ASCII)
_STR_TAG = "tag:yaml.org,2002:str"
_RESOLVER: Any = yaml.resolver.Resolver()

#: A value in a flow mapping.
Inline: TypeAlias = "str | int | float | bool | Sequence[str] | Mapping[str, Inline]"
#: The fields of a job's retries by their keys in `retry`, and those of them in no group.
_RETRY = {**SHORT_RETRY, **GROUPS["retry"]}
_SHORT = {field.name: "retry" for field in SHORT_RETRY.values()}


def scalar(text: str, *, has_places: bool = True) -> str:
    """Return a text on one line, quoted if necessary.

    `on`, `1.0` and `null` need quotes: YAML reads them as other types. Without `has_places`,
    `${NAME}` stands for itself.
    """
    if has_places:
        text = escape_places(text)
    if _PLAIN.fullmatch(text) and _is_text(text):
        return text
    return escape_unseen(json.dumps(text, ensure_ascii=False))


def inline(value: Inline) -> str:
    """Return a value for a flow mapping or list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return scalar(value)
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, Mapping):
        return braces(value)
    return f"[{', '.join(map(scalar, value))}]"


def braces(values: Mapping[str, Inline]) -> str:
    """Return a mapping on one line."""
    return f"{{{', '.join(f'{name}: {inline(value)}' for name, value in values.items())}}}"


def text_field(name: str, text: str, indent: int, *, has_places: bool = True) -> Iterable[str]:
    """Return the lines of a field; a text of several lines becomes a block if possible."""
    margin = " " * indent
    if has_places:
        text = escape_places(text)
    if "\n" in text and not any(is_unseen(c) for c in text if c not in "\n\t"):
        header, *lines = _block(text)
        if _read_back([header, *lines]) == text:
            return [
                f"{margin}{name}: {header}",
                *(f"{margin}{line}" if line else "" for line in lines),
            ]
    return [f"{margin}{name}: {scalar(text, has_places=False)}"]


def _block(text: str) -> list[str]:
    """Return the header and the lines of a literal block, for a field at column 0."""
    ends = len(text) - len(text.rstrip("\n"))
    # Needed if the first line begins with white space, as that line determines the indentation.
    width = str(INDENT) if text[0] in " \t\n" else ""
    chomping = {0: "-", 1: ""}.get(ends, "+")
    lines = text.removesuffix("\n").split("\n")
    margin = " " * INDENT
    return [f"|{width}{chomping}", *(f"{margin}{line}" if line else "" for line in lines)]


def _read_back(block: Sequence[str]) -> str | None:
    try:
        root = yaml.compose("\n".join([f"x: {block[0]}", *block[1:], ""]), yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return str(root.value[0][1].value) if root else None


def _is_text(plain: str) -> bool:
    return bool(_RESOLVER.resolve(yaml.ScalarNode, plain, (True, False)) == _STR_TAG)


def job_file(
    app_specs: Sequence[AppSpec],
    specs: Sequence[JobSpec],
    limits: Sequence[LimitSpec] = (),
    calendars: Sequence[CalendarSpec] = (),
) -> Iterator[str]:
    """Yield the lines of a job file; defaults are left out."""
    for title, parts in (
        ("apps", [_app_lines(app) for app in app_specs]),
        ("calendars", [_calendar_lines(calendar) for calendar in calendars]),
        ("limits", [_limit_lines(limit) for limit in limits]),
        ("jobs", [_job_lines(spec) for spec in specs]),
    ):
        if parts:
            yield f"{title}:"
        for part in parts:
            yield from _as_item(part)
    if not any((app_specs, specs, limits, calendars)):
        yield "jobs: []"


def _as_item(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of an app or job as an item of a list."""
    margin = " " * INDENT
    for number, line in enumerate(lines):
        yield f"{margin}- {line[2 * INDENT :]}" if number == 0 else line


def _app_lines(app: AppSpec) -> Iterator[str]:
    yield from _field("name", app.name)
    if app.title is not None:
        yield from _field("title", app.title)
    if app.addresses:
        yield from _field("addresses", app.addresses)
    if app.route:
        yield from _field("route", app.route)
    yield from _target_lines("alarm", app.alarm)
    yield from _target_lines("webhook", app.webhook)


def _calendar_lines(calendar: CalendarSpec) -> Iterator[str]:
    yield from _field("name", calendar.name)
    if calendar.source:
        yield from _field("from", calendar.source)
    if calendar.weekend is not None:
        yield from _field("weekend", calendar.weekend)
    if calendar.until is not None:
        yield _at(f"until: {calendar.until}")
    if calendar.days:
        yield _at("days:")
        margin = " " * 3 * INDENT
        for day in sorted(calendar.days):
            yield f"{margin}{day}: {scalar(calendar.days[day])}"


def _limit_lines(limit: LimitSpec) -> Iterator[str]:
    for key in ("name", "at_once", "rate", "per"):
        if (value := getattr(limit, key)) is not None:
            yield from _field(key, value)


def _job_lines(spec: JobSpec) -> Iterator[str]:
    places = (_SHORT.get(field.name, field.kind.group or field.name) for field in FIELDS.values())
    for key in dict.fromkeys(places):
        if key in _OWN_LINES:
            yield from _OWN_LINES[key](spec)
        elif key in GROUPS:
            if given := _given(spec, GROUPS[key]):
                yield _at(f"{key}: {braces(given)}")
        elif (value := getattr(spec, key)) != FIELDS[key].default:
            yield from _field(key, value)


def _retry_lines(spec: JobSpec) -> Iterator[str]:
    """Yield the short form if nothing more is set, else the long one, `retry`."""
    given = _given(spec, _RETRY)
    if set(given) <= set(SHORT_RETRY):
        for key, value in given.items():
            yield from _field(SHORT_RETRY[key].name, value)
    else:
        yield _at(f"retry: {braces(given)}")


def _given(spec: JobSpec, known: Mapping[str, Field]) -> dict[str, Any]:
    """Return the fields that have not their defaults, by key."""
    values = {key: getattr(spec, field.name) for key, field in known.items()}
    return {key: value for key, value in values.items() if value != known[key].default}


def _schedule_lines(spec: JobSpec) -> Iterator[str]:
    if schedule := shown_as(spec.schedule_kind).in_job_file(spec.schedule_value):
        if spec.timezone:
            schedule["timezone"] = spec.timezone
        schedule |= spec.schedule_options.given()
        yield _at(f"schedule: {braces(schedule)}")


def _script_lines(spec: JobSpec) -> Iterator[str]:
    if not spec.script_language:
        return
    yield _at("script:")
    deeper = 3 * INDENT
    yield f"{' ' * deeper}language: {scalar(spec.script_language)}"
    if spec.script_remark:
        yield f"{' ' * deeper}remark: {scalar(spec.script_remark)}"
    yield from text_field("source", spec.script_source, deeper, has_places=False)


def _flow_lines(spec: JobSpec) -> Iterator[str]:
    """Yield a line for each node."""
    if spec.flow is None:
        return
    yield _at("flow:")
    for name, node in spec.flow.to_mapping().items():
        yield _at(f"{' ' * INDENT}{scalar(name)}: {braces(node)}")


def _target_lines(group: str, target: AlarmTargets | RunWebhook | Expectations) -> Iterator[str]:
    values: dict[str, Inline] = {
        field.name: value for field in fields(target) if (value := getattr(target, field.name))
    }
    if values:
        yield _at(f"{group}: {braces(values)}")


_OWN_LINES: Mapping[str, Callable[[JobSpec], Iterator[str]]] = {
    "schedule": _schedule_lines,
    "flow": _flow_lines,
    "script": _script_lines,
    "retry": _retry_lines,
    "expect": lambda spec: _target_lines("expect", spec.expect),
}


def _field(name: str, value: Inline) -> Iterable[str]:
    if isinstance(value, str):
        return text_field(name, value, 2 * INDENT)
    return [_at(f"{name}: {inline(value)}")]


def _at(line: str) -> str:
    return " " * (2 * INDENT) + line
