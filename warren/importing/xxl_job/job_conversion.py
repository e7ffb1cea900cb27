"""Rows of `xxl_job_info` become jobs; those with something that has no equivalent are stopped.

GLUE becomes a script with its earlier versions. Jobs of `httpJobHandler` and `commandJobHandler`
become those of Warren's own. Their params there: from 3.x on JSON, before that lines `url:`,
`method:` and `data:`, and at first a URL alone; for commands, words separated by spaces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec

from warren.broker.reasons import Reason, Why, Words
from warren.importing.xxl_job.source_tables import Row
from warren.scheduler.alarms.addresses import MAX_EMAILS_LENGTH, is_email
from warren.scheduler.imports.items import Finding, ImportedJob, ImportedVersion, Verdict
from warren.scheduler.jobs.rules import problems
from warren.scheduler.jobs.script_cache import (
    REMARK_LENGTH,
    check_source,
    language_of,
    normal_source,
)
from warren.scheduler.jobs.spec import FIELDS, Choice, JobSpec, Line, Number
from warren.scheduler.names import without_invisible
from warren.scheduler.problems import Problem
from warren.scheduler.schedules.registry import CronSchedule, FixedRate, NoSchedule
from warren.sql.jobs.script_versions import KEPT_VERSIONS

#: What 3.x takes when a param does not say.
_METHOD, _CONTENT_TYPE, _TIMEOUT_MS = "POST", "application/json", 3_000
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
_KEYS = {*("url", "method", "contentType", "headers", "cookies", "timeout", "data", "form", "auth")}
HANDLER = "BEAN"
#: Script types that run with a different interpreter here, or in a different way.
PYTHON2, GROOVY = "GLUE_PYTHON2", "GLUE_GROOVY"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinJob:
    """The handler and the param of a job here, and remarks about what differs."""

    handler: str
    param: str
    remarks: tuple[str, ...] = ()


def builtin_job(handler: str, param: str) -> BuiltinJob | None:
    """Return what becomes of a job with such a handler; None for other handlers.

    Raises:
        ValueError: the param is nothing that the handler there understands.

    """
    name = handler.strip().lower()
    if name == "commandjobhandler":
        return _command(param)
    return _http(param) if name == "httpjobhandler" else None


def _command(param: str) -> BuiltinJob:
    words = param.split()
    if not words:
        raise ValueError("it is no command")
    return BuiltinJob(handler="warren.command", param=_json({"args": words}))


def _http(param: str) -> BuiltinJob:
    values = _values(param.strip())
    if unknown := values.keys() - _KEYS:
        raise ValueError(f"it has {min(unknown)!r}, which httpJobHandler does not know")
    url, method = str(values.get("url") or "").strip(), str(values.get("method") or _METHOD)
    if not url.startswith(("http://", "https://")) or method.upper() not in _METHODS:
        raise ValueError("it has no url with http(s), or no method of HTTP")
    remarks = ["a status other than 200 to 299 is a failure here"]
    headers = {str(name): str(value) for name, value in _mapping(values, "headers").items()}
    if cookies := _mapping(values, "cookies"):
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    if values.get("auth"):
        remarks.append("its auth is left out: name it in headers, as {secret:NAME}")
    request: dict[str, Any] = {"url": url, "method": method.upper()}
    if form := _mapping(values, "form"):
        request["body"] = urlencode(form)
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    elif data := values.get("data"):
        request["body"] = data if isinstance(data, str) else _json(data)
        headers.setdefault("Content-Type", str(values.get("contentType") or _CONTENT_TYPE))
    if headers:
        request["headers"] = headers
    request["timeout"] = _seconds(values.get("timeout"))
    return BuiltinJob(handler="warren.http", param=_json(request), remarks=tuple(remarks))


def _values(param: str) -> Mapping[str, Any]:
    if param.startswith("{"):
        try:
            return msgspec.json.decode(param, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ValueError(f"it is no JSON: {error}") from None
    if param.startswith(("http://", "https://")):
        return {"url": param, "method": "GET"}
    values: dict[str, Any] = {}
    for line in filter(None, map(str.strip, param.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("it has a line without a colon")
        values[name.strip()] = value.strip()
    return values


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    mapping = values.get(name) or {}
    if not isinstance(mapping, Mapping):
        raise ValueError(f"its {name} are no object")  # noqa: TRY004 - the value of a param
    return mapping


def _seconds(milliseconds: Any) -> float:
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    known = milliseconds if is_number and milliseconds > 0 else _TIMEOUT_MS
    return min(known / 1_000, 86_400.0)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@dataclass(frozen=True, slots=True)
class Glue:
    """A job's script; `language` "" = none. A `problem` stops the job."""

    language: str = ""
    source: str = ""
    remark: str = ""
    versions: tuple[ImportedVersion, ...] = ()
    problem: Reason | None = None


def read_glue(row: Row, history: Sequence[Row], zone: ZoneInfo) -> Glue:
    """Return the script of a job; `history` are its rows of the GLUE history, oldest first."""
    kind = row.text("glue_type").strip() or HANDLER
    if kind == HANDLER:
        return Glue()
    language = language_of("GLUE_PYTHON" if kind == PYTHON2 else kind)
    if not language:
        return Glue(problem=Why.SCRIPT_TYPE_UNKNOWN())
    source = normal_source(language, row.text("glue_source"))
    try:
        check_source(source)
    except Problem as fault:
        return Glue(problem=Why.SCRIPT_LEFT_OUT(why=str(fault)))
    problem = Why.PYTHON_2() if kind == PYTHON2 else None
    remark = row.line("glue_remark")[:REMARK_LENGTH].strip()
    return Glue(language, source, remark, _versions(language, source, history, zone), problem)


def _versions(
    language: str, current: str, history: Sequence[Row], zone: ZoneInfo
) -> tuple[ImportedVersion, ...]:
    """Return the versions before the current one, oldest first."""
    imported = []
    for row in history:
        source = normal_source(language, row.text("glue_source"))
        try:
            check_source(source)
        except Problem:
            continue
        remark = row.line("glue_remark")[:REMARK_LENGTH].strip()
        imported.append(
            ImportedVersion(
                language=language_of(row.text("glue_type").strip()) or language,
                source=source,
                remark=remark,
                saved_at=row.utc("add_time", zone),
            )
        )
    if imported and imported[-1].source == current:
        imported.pop()
    return tuple(imported[-(KEPT_VERSIONS - 1) :])


_COLUMNS = {
    "schedule": "schedule_conf",
    "schedule/timezone": "schedule_timezone",
    "handler": "executor_handler",
    "param": "executor_param",
    "name": "name",
    "script/source": "glue_source",
    "script/remark": "glue_remark",
}
_CHOICES = {
    "route": "executor_route_strategy",
    "block": "executor_block_strategy",
    "misfire": "misfire_strategy",
}
_NUMBERS = {"timeout": "executor_timeout", "retries": "executor_fail_retry_count"}
#: How many seconds late a due time may still run in XXL-JOB.
_LATE_LIMIT = 5
_MAX_SCHEDULE_LENGTH = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """What is needed to read jobs: apps by group, the server's time zone, and the current time.

    `datetimes` is the time zone of DATETIME columns. `keeps_handlers`: jobs of httpJobHandler and
    commandJobHandler stay so, for executors of XXL-JOB.
    """

    apps: Mapping[int, str]
    unreachable: frozenset[int]
    zone: ZoneInfo
    datetimes: ZoneInfo
    now_ms: int
    keeps_handlers: bool = False


@dataclass(slots=True)
class _JobFindings:
    row: Row
    findings: list[Finding] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    def differs(self, column: str, words: str, value: str | None = None) -> None:
        self.findings.append(self.row.finding(Verdict.DIFFERS, column, words, value))

    def leave(self, column: str, words: str, value: str | None = None) -> None:
        self.findings.append(self.row.finding(Verdict.LEFT_OUT, column, words, value))

    def stop(self, column: str, why: Words) -> None:
        self.findings.append(self.row.finding(Verdict.STOPPED, column, str(why)))
        self.reasons.append(Why.COLUMN(column=column, why=why))


def read_job(
    row: Row, history: Sequence[Row], reading: JobReading
) -> tuple[ImportedJob, list[Finding]]:
    """Return a job and its findings; another job may still have the same name."""
    imported = _JobFindings(row)
    group = row.number("job_group")
    if group in reading.unreachable:
        imported.stop("job_group", Why.APP_UNREACHABLE())
    glue = read_glue(row, history, reading.datetimes)
    _add_glue_findings(imported, glue)
    kind, value = _schedule(imported)
    handler = "" if glue.language else _line(imported, "handler", "executor_handler")
    handler, param = _builtin(imported, handler, reading)
    spec = JobSpec(
        name=_name(imported),
        app=reading.apps[group],
        author=_line(imported, "author", "author"),
        schedule_kind=kind,
        schedule_value=value,
        timezone=(row.line("schedule_timezone") or str(reading.zone))
        if kind == CronSchedule.kind
        else "",
        handler=handler,
        script_language=glue.language,
        script_source=glue.source,
        script_remark=glue.remark,
        param=param,
        late_limit=_LATE_LIMIT,
        alarm_emails=_emails(imported),
        **{name: _choice(imported, name, column) for name, column in _CHOICES.items()},
        **{name: _number(imported, name, column) for name, column in _NUMBERS.items()},
    )
    for problem in problems(spec, now_ms=reading.now_ms):
        if not (glue.problem and problem.field == "handler"):
            imported.stop(_COLUMNS.get(str(problem.field), "name"), str(problem))
    item = ImportedJob(
        source_id=row.id,
        spec=spec,
        stop_reasons=tuple(imported.reasons),
        versions=glue.versions,
        added_at=row.utc("add_time", reading.datetimes),
        updated_at=row.utc("update_time", reading.datetimes),
        is_running=row.number("trigger_status") == 1,
        next_tick_ms=max(0, row.number("trigger_next_time")),
    )
    return item, imported.findings


def _builtin(imported: _JobFindings, handler: str, reading: JobReading) -> tuple[str, str]:
    """Return a job's handler and param; those of XXL-JOB's own handlers become Warren's."""
    param = imported.row.text("executor_param")
    if reading.keeps_handlers:
        return handler, param
    try:
        built_in = builtin_job(handler, param)
    except ValueError as fault:
        imported.differs("executor_param", f"it stays as it is: {fault}")
        return handler, param
    if built_in is None:
        return handler, param
    words = [f"it is {built_in.handler!r} here", *built_in.remarks]
    imported.differs("executor_handler", "; ".join(words))
    return built_in.handler, built_in.param


def _name(imported: _JobFindings) -> str:
    there = imported.row.text("name")
    visible = without_invisible(imported.row.line("name"))
    name = visible.replace("/", "_")[: _max_length("name")].strip() or f"#{imported.row.id}"
    if name != there:
        imported.differs("name", f"it is {name!r} here")
    return name


def _line(imported: _JobFindings, name: str, column: str) -> str:
    there = imported.row.text(column)
    line = imported.row.line(column)[: _max_length(name)].strip()
    if line != there.strip():
        imported.differs(column, f"it is {line!r} here")
    return line


def _max_length(name: str) -> int:
    kind = FIELDS[name].kind
    assert isinstance(kind, Line)
    return kind.longest


def _schedule(imported: _JobFindings) -> tuple[str, str]:
    row = imported.row
    if "schedule_type" not in row.values:
        kind, column = CronSchedule.kind, "job_cron"
    else:
        kind, column = row.text("schedule_type").strip() or NoSchedule.kind, "schedule_conf"
    value = row.line(column)
    if kind == CronSchedule.kind and len(value) > _MAX_SCHEDULE_LENGTH:
        imported.stop(column, Why.SCHEDULE_TOO_LONG(most=_MAX_SCHEDULE_LENGTH))
        return NoSchedule.kind, ""
    if kind in (CronSchedule.kind, FixedRate.kind):
        return kind, value
    if kind != NoSchedule.kind:
        imported.stop("schedule_type", Why.SCHEDULE_TYPE_UNKNOWN())
    return NoSchedule.kind, ""


def _choice(imported: _JobFindings, name: str, column: str) -> Any:
    default, kind = FIELDS[name].default, FIELDS[name].kind
    value = imported.row.text(column).strip()
    if not value:
        return default
    assert isinstance(kind, Choice)
    if value not in kind.known:
        imported.stop(column, Why.CHOICE_UNKNOWN(default=str(default)))
        return default
    return value


def _number(imported: _JobFindings, name: str, column: str) -> Any:
    kind = FIELDS[name].kind
    assert isinstance(kind, Number)
    value = imported.row.number(column)
    fitting = min(max(value, kind.least), kind.most)
    if fitting != value:
        imported.differs(column, f"it is {fitting} here")
    return fitting


def _emails(imported: _JobFindings) -> tuple[str, ...]:
    column, kept = "alarm_email", list[str]()
    for email in filter(None, (part.strip() for part in imported.row.text(column).split(","))):
        if not is_email(email):
            imported.leave(column, "not an e-mail address", email)
        elif len(",".join([*kept, email])) > MAX_EMAILS_LENGTH:
            imported.leave(column, "the list is too long here", email)
        elif email not in kept:
            kept.append(email)
    return tuple(kept)


def _add_glue_findings(imported: _JobFindings, glue: Glue) -> None:
    kind = imported.row.text("glue_type").strip()
    if glue.problem:
        imported.stop("glue_type" if kind == PYTHON2 else "glue_source", glue.problem)
        if not glue.language:
            imported.leave("glue_source", "the job is imported without it")
    elif kind == GROOVY:
        words = "runs as a Groovy program here; as a class with Spring beans only behind a gateway"
        imported.differs("glue_type", words)
