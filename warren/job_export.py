"""`warren jobs export`: jobs as a job file that, applied, changes nothing."""

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy.orm import Session

from scheduler.alarms.policy import AlarmTargets
from scheduler.job_rules import problems
from scheduler.job_spec import AppSpec, JobSpec
from scheduler.stored_spec import app_spec, job_spec
from sql import exports, families
from warren.access import now_ms, open_database
from warren.added_routes import route_names
from warren.settings import Settings
from warren.terminal import warn
from warren.yaml_tree import FILE_BYTES
from warren.yaml_writer import INDENT, Inline, braces, inline, scalar, text_field

_SCHEDULES = {"CRON": "cron", "FIX_RATE": "every", "FIX_DELAY": "delay", "AT": "at"}
_NUMBERS = {"FIX_RATE", "FIX_DELAY"}
#: Fields that are one value, in the order in which they are written after handler or script.
_VALUES = (
    "route",
    "block",
    "misfire",
    "delivery",
    "concurrency",
    "timeout",
    "retries",
    "retry_delay",
    "fresh_process",
    "children",
)
_DEFAULTS = JobSpec(name="", app="")


def export_jobs(settings: Settings, *, app: str | None, names: Sequence[str]) -> None:
    """Print a job file; say on standard error what it cannot hold."""
    with open_database(settings) as database:
        found = database.read(lambda session: read_specs(session, app=app, names=names))
        now = now_ms(database)
    specs, left_out = sound_specs(found[1], now_ms=now, added_routes=route_names())
    text = "".join(f"{line}\n" for line in job_file(found[0], specs))
    print(text, end="")
    if len(text.encode()) > FILE_BYTES:
        left_out.append(f"this is more than the {FILE_BYTES} bytes of a job file; export by --app")
    for words in left_out:
        warn(words)


def read_specs(
    session: Session, *, app: str | None, names: Sequence[str]
) -> tuple[list[AppSpec], list[JobSpec]]:
    """Return the apps and jobs to export: all, those of one app, or those named.

    Raises:
        NotFound: there is no such app or job.

    """
    rows = exports.jobs(session, app=app, names=names)
    children = families.children_names(session, [job for job, _ in rows])
    specs = [job_spec(job, owner, children.get(job.id, ())) for job, owner in rows]
    wanted = {owner for _, owner in rows} | ({app} if app else set())
    found = exports.apps(session)
    told = [one for one in found if one.app_name in wanted or not (app or names)]
    return [app_spec(one) for one in told], specs


def sound_specs(
    specs: Iterable[JobSpec], *, now_ms: int, added_routes: Sequence[str]
) -> tuple[list[JobSpec], list[str]]:
    """Return the jobs that a job file may hold, and why others are left out, a line each."""
    sound, left_out = [], []
    for spec in specs:
        wrong = problems(spec, now_ms=now_ms, added_routes=added_routes)
        if wrong:
            left_out.append(f"job {spec.app}/{spec.name} is left out: {wrong[0].text}")
        else:
            sound.append(spec)
    return sound, left_out


def job_file(app_specs: Sequence[AppSpec], specs: Sequence[JobSpec]) -> Iterator[str]:
    """Give the lines of a job file; what is as by default is left out."""
    for title, parts in (
        ("apps", [_app_lines(app) for app in app_specs]),
        ("jobs", [_job_lines(spec) for spec in specs]),
    ):
        if parts:
            yield f"{title}:"
        for part in parts:
            yield from _as_item(part)
    if not app_specs and not specs:
        yield "jobs: []"


def _as_item(lines: Iterable[str]) -> Iterator[str]:
    """Give the fields of one thing as an item of a list."""
    margin = " " * INDENT
    for number, line in enumerate(lines):
        yield f"{margin}- {line[2 * INDENT :]}" if number == 0 else line


def _app_lines(app: AppSpec) -> Iterator[str]:
    yield from _field("name", app.name)
    if app.title is not None:
        yield from _field("title", app.title)
    if app.addresses:
        yield from _field("addresses", app.addresses)
    yield from _alarm_lines(app.alarm)


def _job_lines(spec: JobSpec) -> Iterator[str]:
    yield from _field("name", spec.name)
    yield from _field("app", spec.app)
    if spec.author:
        yield from _field("author", spec.author)
    if spec.schedule_kind in _SCHEDULES:
        yield _at(f"schedule: {braces(_schedule(spec))}")
    yield from _script_lines(spec) if spec.script_language else _field("handler", spec.handler)
    if spec.param:
        yield from text_field("param", spec.param, 2 * INDENT)
    for name in _VALUES:
        if getattr(spec, name) != getattr(_DEFAULTS, name):
            yield from _field(name, getattr(spec, name))
    yield from _alarm_lines(spec.alarm)
    if spec.enabled:
        yield from _field("enabled", spec.enabled)


def _schedule(spec: JobSpec) -> dict[str, Inline]:
    kind, conf = spec.schedule_kind, spec.schedule_conf
    found: dict[str, Inline] = {_SCHEDULES[kind]: int(conf) if kind in _NUMBERS else conf}
    return found | ({"timezone": spec.timezone} if spec.timezone else {})


def _script_lines(spec: JobSpec) -> Iterator[str]:
    yield _at("script:")
    deeper = 3 * INDENT
    yield f"{' ' * deeper}language: {scalar(spec.script_language)}"
    if spec.script_remark:
        yield f"{' ' * deeper}remark: {scalar(spec.script_remark)}"
    yield from text_field("source", spec.script_source, deeper)


def _alarm_lines(alarm: AlarmTargets) -> Iterator[str]:
    told: dict[str, Inline] = {
        "emails": alarm.emails,
        "webhook": alarm.webhook,
        "style": alarm.style,
    }
    if any(told.values()):
        yield _at(f"alarm: {braces({name: value for name, value in told.items() if value})}")


def _field(name: str, value: Inline) -> Iterator[str]:
    yield _at(f"{name}: {inline(value)}")


def _at(line: str) -> str:
    return " " * (2 * INDENT) + line
