"""Converts jobs to and from the API's types, which are generated from the declared fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from warren.admin_web.api.bodies import FieldErrors
from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.expectations.expectations import DECLARED, Expectations
from warren.scheduler.flows.graph import FIELD as FLOW
from warren.scheduler.flows.graph import Graph, parse
from warren.scheduler.jobs.field_kinds import LimitNames
from warren.scheduler.jobs.rules import in_short, process_of
from warren.scheduler.jobs.spec import SHORT_RETRY, Field, JobSpec, in_group
from warren.scheduler.limits.specs import use_texts
from warren.scheduler.problems import Problem, Refused
from warren.scheduler.schedules.options import OPTIONS, ScheduleOptions
from warren.scheduler.schedules.registry import KINDS, NoSchedule, shown_as
from warren.scheduler.schedules.schedule import ValueForm

_TOP, _SCRIPT, _ALARM = in_group(), in_group("script"), in_group("alarm")
_WEBHOOK, _RETRY, _RUN_DATE = in_group("webhook"), in_group("retry"), in_group("run_date")
_CATCH_UP = in_group("catch_up")
_KEYWORDS = {kind.keyword: kind for kind in KINDS.values() if kind.fires}
_MORE_KEYS = tuple(key for kind in _KEYWORDS.values() for key in kind.more_keys)
_WHOLE = (ValueForm.SECONDS, ValueForm.WORKDAY)
#: The fields that the path contains as well.
_NAMES = ("name", "app")
#: The older name of `process`, which is still read.
FRESH_PROCESS = "fresh_process"


#: What is expected of a job, by rule.
ExpectBody: Any = msgspec.defstruct(
    "Expect",
    [(name, str | None, None) for name in DECLARED],
    kw_only=True,
    omit_defaults=True,
)
#: The nodes of a flow by name; `graph_parser` says what each may hold. A patch removes one by null.
FlowBody: Any = dict[str, dict[str, Any] | None]
_TYPES: Mapping[Any, Any] = {
    tuple[str, ...]: list[str],
    Expectations: ExpectBody,
    Graph | None: FlowBody | None,
}


def _type(field: Field) -> Any:
    return _TYPES.get(field.type, field.type)


def _said_type(field: Field) -> Any:
    """Return the type of a field in a request."""
    is_limits = isinstance(field.kind, LimitNames)
    return list[str | dict[str, int]] if is_limits else _type(field)


def _to_api(value: Any) -> Any:
    """Return a field's value as it is in the API."""
    if isinstance(value, Expectations):
        return ExpectBody(**value.rules())
    if isinstance(value, Graph):
        return value.to_mapping()
    return list(value) if isinstance(value, tuple) else value


def _from_api(field: Field, value: Any) -> Any:
    """Return a field's value, given its value in the API."""
    if isinstance(field.kind, LimitNames):
        return tuple(use_texts(value))
    if isinstance(value, ExpectBody):
        return Expectations.of(msgspec.to_builtins(value))
    return tuple(value) if isinstance(value, list) else value


def _optional(fields: Mapping[str, Field]) -> list[tuple[str, Any, Any]]:
    return [
        (key, _said_type(field) | None, None) for key, field in fields.items() if key not in _NAMES
    ]


ScheduleBody: Any = msgspec.defstruct(
    "Schedule",
    [
        *(
            (word, (int if key.value_form in _WHOLE else str) | None, None)
            for word, key in _KEYWORDS.items()
        ),
        *((key, str | None, None) for key in (*_MORE_KEYS, *OPTIONS)),
        ("timezone", str | None, None),
    ],
    kw_only=True,
    omit_defaults=True,
)
ScriptBody: Any = msgspec.defstruct("Script", _optional(_SCRIPT), kw_only=True, omit_defaults=True)
AlarmBody: Any = msgspec.defstruct("JobAlarm", _optional(_ALARM), kw_only=True, omit_defaults=True)
WebhookBody: Any = msgspec.defstruct(
    "RunWebhook", _optional(_WEBHOOK), kw_only=True, omit_defaults=True
)
#: How a job is retried. Answers have the times and the delay as `retries` and `retry_delay`.
RetryBody: Any = msgspec.defstruct(
    "Retry", _optional({**SHORT_RETRY, **_RETRY}), kw_only=True, omit_defaults=True
)
RunDateBody: Any = msgspec.defstruct(
    "RunDate", _optional(_RUN_DATE), kw_only=True, omit_defaults=True
)
#: What the misfire policy CATCH_UP catches up.
CatchUpBody: Any = msgspec.defstruct(
    "CatchUp", _optional(_CATCH_UP), kw_only=True, omit_defaults=True
)
_Groups = [
    ("schedule", ScheduleBody | Literal["none"] | None, None),
    ("run_date", RunDateBody | None, None),
    ("catch_up", CatchUpBody | None, None),
    ("script", ScriptBody | None, None),
    ("retry", RetryBody | None, None),
    ("alarm", AlarmBody | None, None),
    ("webhook", WebhookBody | None, None),
]


class JobState(msgspec.Struct, kw_only=True):
    """The current state of a job; returned, but ignored when it is sent.

    `declared_in` is where the job is declared: `file`, `code:MODULE`, or null for nowhere else.
    """

    id: int
    next_fire_at: str | None
    last_status: str | None
    last_due_at: str | None
    script_version: int | None
    script_number: int | None
    stop_reason: str
    declared_in: str | None


#: A job in a request: only what it runs is required; `state`, `warnings` and `cancelled` are
#: ignored.
JobBody: Any = msgspec.defstruct(
    "JobBody",
    [
        ("name", str | None, None),
        ("app", str | None, None),
        *_optional(_TOP),
        *_Groups,
        (FRESH_PROCESS, bool | None, None),
        ("state", dict[str, Any] | None, None),
        ("warnings", list[str] | None, None),
        ("cancelled", int | None, None),
    ],
    kw_only=True,
)
#: A job in an answer, with every field. Of a job that was just saved, `warnings` name what looks
#: wrong, and `cancelled` is how many planned runs that has cancelled: a new schedule those still to
#: come that it does not have, a stop all; without any it is left out. Other answers have neither.
JobAnswer: Any = msgspec.defstruct(
    "Job",
    [
        *((key, _type(field)) for key, field in _TOP.items()),
        *((key, kind) for key, kind, _ in _Groups),
        ("state", JobState),
        ("warnings", list[str] | msgspec.UnsetType, msgspec.UNSET),
        ("cancelled", int | msgspec.UnsetType, msgspec.UNSET),
    ],
    kw_only=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLocation:
    """Where a job's body is: the app and name in the path, if any, and its JSON pointer."""

    app: str = ""
    name: str = ""
    pointer: str = ""


def job_answer(spec: JobSpec, state: JobState, *, enabled: bool, with_secrets: bool) -> Any:
    """Return the answer about a job; without secrets, webhooks are cut down to their hosts."""
    values: dict[str, Any] = {
        key: _to_api(getattr(spec, field.name)) for key, field in _TOP.items()
    }
    values |= {"enabled": enabled, "state": state}
    schedule = shown_as(spec.schedule_kind).in_job_file(spec.schedule_value)
    zone = {"timezone": spec.timezone} if spec.timezone else {}
    options = spec.schedule_options.given()
    values["schedule"] = ScheduleBody(**_known(schedule), **zone, **options) if schedule else None
    values["run_date"] = _if_set(spec, _RUN_DATE, RunDateBody)
    values["catch_up"] = _if_set(spec, _CATCH_UP, CatchUpBody)
    values["script"] = _group(spec, _SCRIPT, ScriptBody) if spec.script_language else None
    values["retry"] = _if_set(spec, _RETRY, RetryBody)
    values["alarm"] = _alarm(spec, with_secrets=with_secrets) if spec.alarm else None
    values["webhook"] = _webhook(spec, with_secrets=with_secrets) if spec.webhook else None
    return JobAnswer(**values)


def job_answer_body(spec: JobSpec) -> dict[str, Any]:
    """Return a job as in a job file, with secrets and without defaults."""
    state = JobState(
        id=0,
        next_fire_at=None,
        last_status=None,
        last_due_at=None,
        script_version=None,
        script_number=None,
        stop_reason="",
        declared_in=None,
    )
    answer = job_answer(spec, state, enabled=bool(spec.enabled), with_secrets=True)
    body: dict[str, Any] = msgspec.to_builtins(answer)
    del body["state"]
    usual = {key: field.default for key, field in _TOP.items()} | {"enabled": False}
    return {
        name: value for name, value in body.items() if value not in (None, [], {}, usual.get(name))
    }


def spec_of(body: Any, location: BodyLocation, wrong: FieldErrors) -> JobSpec | None:
    """Return the job that a body describes, or None and add what is wrong to `wrong`."""
    before = len(wrong)
    values: dict[str, Any] = {
        field.name: _from_api(field, value)
        for key, field in _TOP.items()
        if key != FLOW and (value := getattr(body, key)) is not None
    }
    values |= _flow_of(body.flow, location, wrong)
    if location.app and values.setdefault("app", location.app) != location.app:
        wrong.add(f"{location.pointer}/app", f"expected {location.app!r} as in the path")
    values.setdefault("name", location.name)
    for name in _NAMES:
        if not values.get(name):
            wrong.add(f"{location.pointer}/{name}", f"missing field {name!r}")
    values |= _process_of(body, location, wrong)
    values |= _retry_of(body, location, wrong)
    values |= _schedule_of(body.schedule, location, wrong)
    for group, fields, name in (
        (body.run_date, _RUN_DATE, "run_date"),
        (body.catch_up, _CATCH_UP, "catch_up"),
        (body.script, _SCRIPT, "script"),
        (body.alarm, _ALARM, "alarm"),
        (body.webhook, _WEBHOOK, "webhook"),
    ):
        values |= _values_of(group, fields)
        if name == "script" and group is not None:
            for key in ("language", "source"):
                if not getattr(group, key):
                    wrong.add(f"{location.pointer}/script/{key}", f"missing field {key!r}")
    return JobSpec(**values) if len(wrong) == before else None


def _flow_of(flow: Any, location: BodyLocation, wrong: FieldErrors) -> dict[str, Any]:
    if flow is None:
        return {}
    try:
        return {FLOW: parse(flow)}
    except Refused as refused:
        for problem in refused.problems:
            wrong.add(f"{location.pointer}/{problem.field}", str(problem))
        return {}


def merged(target: Any, patch: Any) -> Any:
    """Return a JSON value with a merge patch applied (RFC 7396), however deeply it is nested."""
    whole = {"": target}
    left = [(whole, "", patch)]
    while left:
        holder, name, change = left.pop()
        if not isinstance(change, dict):
            holder[name] = change
            continue
        before = holder.get(name)
        group = holder[name] = dict(before) if isinstance(before, dict) else {}
        for key, value in change.items():
            if value is None:
                group.pop(key, None)
            else:
                left.append((group, key, value))
    return whole[""]


def without_replaced(target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return a job without the fields that a patch sets under another name.

    That is `process` if it sets `fresh_process`, the older name; `retries` and `retry_delay` if it
    sets `retry/times` and `retry/delay`.
    """
    said = patch if isinstance(patch, dict) else {}
    retry = said["retry"] if isinstance(said.get("retry"), dict) else {}
    replaced = {field.name for key, field in SHORT_RETRY.items() if key in retry}
    if FRESH_PROCESS in said:
        replaced.add("process")
    replaced -= said.keys()
    return {name: value for name, value in target.items() if name not in replaced}


def _process_of(body: Any, location: BodyLocation, wrong: FieldErrors) -> dict[str, Any]:
    try:
        return {"process": process_of(body.process or "", body.fresh_process)}
    except Problem as problem:
        wrong.add(f"{location.pointer}/process", str(problem))
        return {}


def _retry_of(body: Any, location: BodyLocation, wrong: FieldErrors) -> dict[str, Any]:
    if body.retry is None:
        return {}
    said = {key: value for key in SHORT_RETRY if (value := getattr(body.retry, key)) is not None}
    short = {key.name: getattr(body, key.name) for key in SHORT_RETRY.values()}
    try:
        return _values_of(body.retry, _RETRY) | in_short(short, said)
    except Problem as problem:
        wrong.add(f"{location.pointer}/{problem.field}", str(problem))
        return {}


def _schedule_of(schedule: Any, location: BodyLocation, wrong: FieldErrors) -> dict[str, Any]:
    if schedule is None or schedule == NoSchedule.keyword:
        return {}
    said = {word: value for word in _KEYWORDS if (value := getattr(schedule, word)) is not None}
    if len(said) != 1:
        got = " and ".join(said) or "none of these"
        words = f"expected one of {', '.join(_KEYWORDS)}, got: {got}"
        wrong.add(f"{location.pointer}/schedule", words)
        return {}
    [(word, value)] = said.items()
    return {
        "schedule_kind": _KEYWORDS[word].kind,
        "schedule_value": _KEYWORDS[word].value_of(
            value, {key: getattr(schedule, key) for key in _MORE_KEYS}
        ),
        "schedule_options": ScheduleOptions.of({key: getattr(schedule, key) for key in OPTIONS}),
        "timezone": schedule.timezone or "",
    }


def _values_of(group: Any, fields: Mapping[str, Field]) -> dict[str, Any]:
    if group is None:
        return {}
    return {
        field.name: tuple(value) if isinstance(value, list) else value
        for key, field in fields.items()
        if (value := getattr(group, key)) is not None
    }


def _if_set(spec: JobSpec, fields: Mapping[str, Field], kind: Any) -> Any:
    """Return a group of which at least one field has not its default; else None."""
    is_set = any(getattr(spec, field.name) != field.default for field in fields.values())
    return _group(spec, fields, kind) if is_set else None


def _group(spec: JobSpec, fields: Mapping[str, Field], kind: Any) -> Any:
    given = {key: getattr(spec, field.name) or None for key, field in fields.items()}
    return kind(
        **{key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    )


def _alarm(spec: JobSpec, *, with_secrets: bool) -> Any:
    alarm = _group(spec, _ALARM, AlarmBody)
    if alarm.webhook and not with_secrets:
        alarm.webhook = without_secret(alarm.webhook)
    return alarm


def _webhook(spec: JobSpec, *, with_secrets: bool) -> Any:
    webhook = _group(spec, _WEBHOOK, WebhookBody)
    if not with_secrets:
        webhook.url = without_secret(webhook.url)
    return webhook


def _known(schedule: Mapping[str, str | int]) -> dict[str, Any]:
    """Return a stored schedule in the types of its keywords; broken ones are left out."""
    return {
        word: value
        for word, value in schedule.items()
        if word not in _KEYWORDS or isinstance(value, int) == (_KEYWORDS[word].value_form in _WHOLE)
    }
