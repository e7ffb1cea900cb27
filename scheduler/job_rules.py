"""What a job may look like, whoever asks for it: the job file, the command line, the console.

Everything that this version refuses although it is designed stands in `LATER_…`, and only there.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from broker.messages import APP_PATTERN, Block
from scheduler.job_spec import JobSpec
from scheduler.schedule import Schedule, ScheduleKind
from scheduler.wall_clock import load_zone

ROUTES = ("FIRST", "ROUND", "RANDOM", "CONSISTENT_HASH")
BLOCKS = tuple(Block)
MISFIRES = ("DO_NOTHING", "FIRE_ONCE_NOW")
DELIVERIES = ("AT_MOST_ONCE", "AT_LEAST_ONCE")

LATER_ROUTES = (
    "LAST",
    "LEAST_FREQUENTLY_USED",
    "LEAST_RECENTLY_USED",
    "FAILOVER",
    "BUSYOVER",
    "SHARDING_BROADCAST",
)
LATER_FIELDS = ("script",)

PARAM_BYTES = 65_536
#: What the columns hold.
_LONGEST = {
    "name": 255,
    "handler": 255,
    "author": 64,
    "timezone": 64,
    "schedule": 128,
    "title": 64,
    "webhook": 512,
    "emails": 255,
}
#: Smallest and largest value; durations are seconds, up to about four months.
BOUNDS = {
    "concurrency": (1, 1_000),
    "timeout": (0, 9_999_999),
    "retries": (0, 1_000),
    "retry_delay": (0, 9_999_999),
}
_EMAIL = re.compile(r"[^\s,;@<>]+@[^\s,;@<>]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field of a job; `field` is its name in a job file."""

    field: str
    text: str


def problems(spec: JobSpec, *, now_ms: int) -> list[Problem]:
    """Return everything that is wrong with a job; a cron must still fire after `now_ms`."""
    found = [*_choices(spec), *_texts(spec), *_numbers(spec), *_alarm(spec)]
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


def check_param(param: str) -> None:
    """Raise ValueError unless this can be a run's parameter."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise ValueError(f"expected param to be up to {PARAM_BYTES} bytes, got: {size} bytes")


def one_of(what: str, value: str, known: tuple[str, ...]) -> str:
    """Return the words that refuse a value which is none of the known ones."""
    near = difflib.get_close_matches(value, known, 1)
    hint = f", did you mean {near[0]!r}?" if near else f"; expected {_listed(known)}"
    return f"unknown {what} {value[:100]!r}{hint}"


def later_route(route: str) -> str:
    """Return the words that refuse a route of a later version."""
    return f"route {route} is not available in this version; expected {_listed(ROUTES)}"


def later_field(field: str) -> str:
    """Return the words that refuse a field, or a kind of schedule, of a later version."""
    return f"{field!r} is not available in this version"


def _choices(spec: JobSpec) -> Iterator[Problem]:
    if spec.route in LATER_ROUTES:
        yield Problem("route", later_route(spec.route))
    elif spec.route not in ROUTES:
        yield Problem("route", one_of("route", spec.route, ROUTES))
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
    for field in ("name", "handler"):
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


def _alarm(spec: JobSpec) -> Iterator[Problem]:
    for email in spec.alarm_emails:
        if not _EMAIL.fullmatch(email):
            yield Problem("alarm", f"expected emails to be addresses, got: {email[:100]!r}")
    if len(",".join(spec.alarm_emails)) > _LONGEST["emails"]:
        yield Problem("alarm", f"expected emails to take up to {_LONGEST['emails']} characters")
    if spec.alarm_webhook and not _is_webhook(spec.alarm_webhook):
        yield Problem(
            "alarm", f"expected webhook to be an http(s) URL, got: {spec.alarm_webhook[:100]!r}"
        )


def _children(spec: JobSpec) -> Iterator[Problem]:
    seen = set()
    for child in spec.children:
        if not child.rpartition("/")[2] or child != child.strip():
            expected = "names of jobs, NAME or APP/NAME"
            yield Problem("children", f"expected children to be {expected}, got: {child[:100]!r}")
        elif child in seen:
            yield Problem("children", f"duplicate child {child[:100]!r}")
        seen.add(child)


def _is_webhook(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and len(url) <= _LONGEST["webhook"]
        and not re.search(r"\s", url)
    )


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
