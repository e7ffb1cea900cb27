"""What a job may look like, whoever asks for it: the job file, the command line, the console."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from broker.messages import ADDRESS_PATTERN, APP_PATTERN, Block, ScriptLanguage
from scheduler.alarms import rules as alarm_rules
from scheduler.job_spec import JobSpec
from scheduler.route_choice import Route
from scheduler.schedule import Schedule, ScheduleKind
from scheduler.script_source import REMARK_LENGTH, check_source
from scheduler.wall_clock import load_zone

#: XXL-JOB's routes; an installation may add more.
ROUTES = tuple(route.value for route in Route)
BLOCKS = tuple(Block)
MISFIRES = ("DO_NOTHING", "FIRE_ONCE_NOW")
DELIVERIES = ("AT_MOST_ONCE", "AT_LEAST_ONCE")
LANGUAGES = tuple(ScriptLanguage)

PARAM_BYTES = 65_536
#: What the columns hold.
_LONGEST = {
    "name": 255,
    "handler": 255,
    "author": 64,
    "timezone": 64,
    "schedule": 128,
    "title": 64,
    "addresses": 65_535,
}
#: Smallest and largest value; durations are seconds, up to about four months.
BOUNDS = {
    "concurrency": (1, 1_000),
    "timeout": (0, 9_999_999),
    "retries": (0, 1_000),
    "retry_delay": (0, 9_999_999),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field of a job; `field` is its name in a job file."""

    field: str
    text: str


def problems(spec: JobSpec, *, now_ms: int, added_routes: Sequence[str] = ()) -> list[Problem]:
    """Return everything that is wrong with a job.

    A cron must still fire after `now_ms`; `added_routes` are those that an installation has besides
    XXL-JOB's.
    """
    found = [
        *_choices(spec, (*ROUTES, *added_routes)),
        *_texts(spec),
        *_numbers(spec),
        *_alarm(spec),
        *_script(spec),
    ]
    found += _children(spec)
    for field, check in (
        ("app", lambda: check_app_name(spec.app)),
        ("timezone", lambda: _check_timezone(spec.timezone)),
        ("schedule", lambda: _check_schedule(spec, now_ms)),
    ):
        found += _problem(field, check)
    return found


def check_app_name(name: str) -> None:
    """Raise ValueError unless this can be an app's name."""
    if not re.fullmatch(APP_PATTERN, name):
        raise ValueError(f"expected app to be a name like {APP_PATTERN}, got: {name[:100]!r}")


def check_title(title: str) -> None:
    """Raise ValueError unless this can be an app's title."""
    if len(title) > _LONGEST["title"] or _CONTROL.search(title):
        raise ValueError(f"expected title to be up to 64 characters, got: {title[:100]!r}")


def check_addresses(addresses: Sequence[str]) -> None:
    """Raise ValueError unless this can be an app's own list of executors."""
    for address in addresses:
        if not re.fullmatch(ADDRESS_PATTERN, address):
            raise ValueError(
                f"expected addresses to be names like {ADDRESS_PATTERN}, got: {address[:100]!r}"
            )
    if len(set(addresses)) < len(addresses):
        doubled = next(one for one in addresses if addresses.count(one) > 1)
        raise ValueError(f"duplicate address {doubled[:100]!r}")
    length = len(",".join(addresses))
    if length > _LONGEST["addresses"]:
        raise ValueError(
            f"expected addresses to take up to {_LONGEST['addresses']} characters, got: {length}"
        )


def check_param(param: str) -> None:
    """Raise ValueError unless this can be a run's parameter."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise ValueError(f"expected param to be up to {PARAM_BYTES} bytes, got: {size} bytes")


def one_of(what: str, value: str, known: tuple[str, ...]) -> str:
    """Return the words that refuse a value which is none of the known ones."""
    near = difflib.get_close_matches(value, known, 1)
    hint = f", did you mean {str(near[0])!r}?" if near else f"; expected {_listed(known)}"
    return f"unknown {what} {value[:100]!r}{hint}"


def _choices(spec: JobSpec, routes: tuple[str, ...]) -> Iterator[Problem]:
    if spec.route not in routes:
        yield Problem("route", one_of("route", spec.route, routes))
    if spec.block not in BLOCKS:
        yield Problem("block", one_of("block", spec.block, BLOCKS))
    if spec.misfire not in MISFIRES:
        yield Problem("misfire", one_of("misfire", spec.misfire, MISFIRES))
    if spec.delivery not in DELIVERIES:
        yield Problem("delivery", one_of("delivery", spec.delivery, DELIVERIES))


def _texts(spec: JobSpec) -> Iterator[Problem]:
    texts = {"name": spec.name, "handler": spec.handler, "author": spec.author}
    for field, text in texts.items():
        if len(text) > _LONGEST[field] or _CONTROL.search(text) or text != text.strip():
            expected = f"a line of up to {_LONGEST[field]} characters"
            yield Problem(field, f"expected {field} to be {expected}, got: {text[:100]!r}")
    for field in ("name",) if spec.script_language else ("name", "handler"):
        if not texts[field]:
            yield Problem(field, f"expected {field} to be a text, got: ''")
    if "/" in spec.name:
        yield Problem("name", f"expected name to hold no '/', got: {spec.name[:100]!r}")
    yield from _problem("param", lambda: check_param(spec.param))


def _numbers(spec: JobSpec) -> Iterator[Problem]:
    for field, (smallest, largest) in BOUNDS.items():
        value = getattr(spec, field)
        if not smallest <= value <= largest:
            expected = f"an integer from {smallest} to {largest}"
            yield Problem(field, f"expected {field} to be {expected}, got: {value}")


def _script(spec: JobSpec) -> Iterator[Problem]:
    if not spec.script_language:
        return
    if spec.handler:
        yield Problem("script", "expected either handler or script, got: both")
    if spec.script_language not in LANGUAGES:
        yield Problem("script", one_of("language", spec.script_language, LANGUAGES))
    yield from _problem("script", lambda: check_source(spec.script_source))
    if "\0" in spec.param:
        yield Problem("param", "expected param of a script to hold no NUL, as no program takes one")
    remark = spec.script_remark
    if len(remark) > REMARK_LENGTH or _CONTROL.search(remark):
        expected = f"a line of up to {REMARK_LENGTH} characters"
        yield Problem("script", f"expected remark to be {expected}, got: {remark[:100]!r}")


def _alarm(spec: JobSpec) -> Iterator[Problem]:
    yield from (Problem("alarm", text) for text in alarm_rules.problems(spec.alarm))


def _children(spec: JobSpec) -> Iterator[Problem]:
    seen = set()
    for child in spec.children:
        if not child.rpartition("/")[2] or child != child.strip():
            expected = "names of jobs, NAME or APP/NAME"
            yield Problem("children", f"expected children to be {expected}, got: {child[:100]!r}")
        elif child in seen:
            yield Problem("children", f"duplicate child {child[:100]!r}")
        seen.add(child)


def _check_timezone(name: str) -> None:
    if len(name) > _LONGEST["timezone"]:
        raise ValueError(f"unknown time zone {name[:100]!r}")
    if name:
        load_zone(name)


def _check_schedule(spec: JobSpec, now_ms: int) -> None:
    if len(spec.schedule_conf) > _LONGEST["schedule"]:
        raise ValueError(
            f"expected a schedule of up to {_LONGEST['schedule']} characters, "
            f"got: {len(spec.schedule_conf)}"
        )
    # A wrong time zone is a problem of its own; the expression can be read in any.
    zone = (
        "UTC"
        if not spec.timezone or _problem("", lambda: load_zone(spec.timezone))
        else spec.timezone
    )
    schedule = Schedule.parse(spec.schedule_kind, spec.schedule_conf, zone)
    if schedule.kind is ScheduleKind.CRON and schedule.next_after(now_ms, 0) is None:
        raise ValueError(f"cron {spec.schedule_conf!r} never fires again")


def _problem(field: str, check: Callable[[], object]) -> list[Problem]:
    try:
        check()
    except ValueError as error:
        return [Problem(field, str(error))]
    return []


def _listed(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
