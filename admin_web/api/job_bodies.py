"""Converts jobs to and from the API's types, which are generated from the declared fields."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from warren.admin_web.api.bodies import INSTEAD_OF, READ_BY_VIEW, FieldErrors
from warren.admin_web.api.problem_answers import error_detail
from warren.broker.durations import whole_seconds
from warren.resources.instant import to_builtins
from warren.resources.jobs import JobState
from warren.resources.spelling import INSTEAD
from warren.scheduler.alarms.addresses import without_secret
from warren.scheduler.expectations import DECLARED, Expectations
from warren.scheduler.flows.graph import FIELD as FLOW
from warren.scheduler.flows.graph import Graph, parse
from warren.scheduler.jobs.rules import group_problems, in_short, process_of
from warren.scheduler.jobs.spec import (
    GROUPS,
    SHORT_RETRY,
    TOP,
    Field,
    JobSpec,
    LimitNames,
    Webhook,
    is_duration,
)
from warren.scheduler.limits import use_texts
from warren.scheduler.problems import Problem, Refused
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import OPTIONS, ScheduleOptions
from warren.scheduler.schedules.registry import KINDS, NoSchedule, shown_as
from warren.scheduler.schedules.schedule import ValueForm

#: The groups whose fields are those of a body, and the names of some of them in the API.
_PLAIN = {group: fields for group, fields in GROUPS.items() if group != "schedule"}
_TITLES = {"alarm": "JobAlarm", "webhook": "RunWebhook"}
_KEYWORDS = {kind.keyword: kind for kind in KINDS.values() if kind.fires}
_MORE_KEYS = tuple(key for kind in _KEYWORDS.values() for key in kind.more_keys)
_WHOLE = (ValueForm.SECONDS, ValueForm.WORKDAY)
#: The fields that the path contains as well.
_NAMES = ("name", "app")
#: The older name of `process`, which is still read.
FRESH_PROCESS = "fresh_process"
#: What a misfire policy may say in its place.
CATCH_UP = "catch_up"


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


#: Seconds in a request, once `as_in_file` has read it.
_SAID_SECONDS = Annotated[
    int, msgspec.Meta(description="Seconds; a duration such as `10m` is taken too.")
]


def _type(field: Field) -> Any:
    return _TYPES.get(field.type, field.type)


def _said_type(field: Field) -> Any:
    """Return the type of a field in a request."""
    if is_duration(field):
        return _SAID_SECONDS
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


def _group_body(group: str, fields: Mapping[str, Field]) -> Any:
    """Return the type of a group; answers have the times and the delay of `retry` at the top."""
    fields = {**SHORT_RETRY, **fields} if group == "retry" else fields
    title = _TITLES.get(group, group.title().replace("_", ""))
    return msgspec.defstruct(title, _optional(fields), kw_only=True, omit_defaults=True)


_BODIES = {group: _group_body(group, fields) for group, fields in _PLAIN.items()}
_GROUPS = [
    ("schedule", ScheduleBody | Literal["none"] | None, None),
    *((group, body | None, None) for group, body in _BODIES.items()),
]


#: A job in a request: only what it runs is required; `state`, `warnings` and `cancelled` are
#: ignored.
JobBody: Any = msgspec.defstruct(
    "JobBody",
    [
        ("name", str | None, None),
        ("app", str | None, None),
        *_optional(TOP),
        *_GROUPS,
        (FRESH_PROCESS, bool | None, None),
        ("state", dict[str, Any] | None, None),
        ("warnings", list[str] | None, None),
        ("cancelled", int | None, None),
    ],
    kw_only=True,
    namespace={INSTEAD_OF: INSTEAD, READ_BY_VIEW: True},
)
#: A job in an answer, with every field. Of a job that was just saved, `warnings` name what looks
#: wrong, and `cancelled` is how many planned runs that has cancelled: a new schedule those still to
#: come that it does not have, a stop all; without any it is left out. Other answers have neither.
JobAnswer: Any = msgspec.defstruct(
    "Job",
    [
        *((key, _type(field)) for key, field in TOP.items()),
        *((key, kind) for key, kind, _ in _GROUPS),
        ("state", JobState),
        ("warnings", list[str] | msgspec.UnsetType, msgspec.UNSET),
        ("cancelled", int | msgspec.UnsetType, msgspec.UNSET),
    ],
    kw_only=True,
)


_SECONDS = {
    "schedule": {word for word, key in _KEYWORDS.items() if key.value_form is ValueForm.SECONDS},
    **{
        group: {key for key, field in fields.items() if is_duration(field)}
        for group, fields in {
            "": TOP,
            **GROUPS,
            "retry": {**SHORT_RETRY, **GROUPS["retry"]},
        }.items()
        if group != "schedule"
    },
}


def as_in_file(job: Any) -> Any:
    """Return a job in JSON whose durations may be as in a job file: `10m` becomes 600.

    So may `misfire` be: `{"catch_up": {"within": "1d"}}`. Whatever else there is stays.
    """
    if not isinstance(job, dict):
        return job
    misfire = job.get("misfire")
    if isinstance(misfire, dict) and misfire.keys() == {CATCH_UP} and CATCH_UP not in job:
        job = job | {"misfire": MisfirePolicy.CATCH_UP.value, CATCH_UP: misfire[CATCH_UP]}
    return {
        key: {name: _as_seconds(key, name, one) for name, one in value.items()}
        if isinstance(value, dict)
        else _as_seconds("", key, value)
        for key, value in job.items()
    }


def _as_seconds(group: str, key: str, value: Any) -> Any:
    is_text = isinstance(value, str) and key in _SECONDS.get(group, ())
    seconds = whole_seconds(value, needs_unit=True) if is_text else None
    return value if seconds is None else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLocation:
    """Where a job's body is: the app and name in the path, if any, and its JSON pointer."""

    app: str = ""
    name: str = ""
    pointer: str = ""


def job_answer(spec: JobSpec, state: JobState, *, enabled: bool, with_secrets: bool) -> Any:
    """Return the answer about a job; without secrets, webhooks are cut down to their hosts."""
    values: dict[str, Any] = {key: _to_api(getattr(spec, field.name)) for key, field in TOP.items()}
    values |= {"enabled": enabled, "state": state}
    schedule = shown_as(spec.schedule_kind).in_job_file(spec.schedule_value)
    zone = {"timezone": spec.timezone} if spec.timezone else {}
    options = spec.schedule_options.given()
    values["schedule"] = ScheduleBody(**_known(schedule), **zone, **options) if schedule else None
    for group, fields in _PLAIN.items():
        values[group] = _group(spec, group, fields, with_secrets=with_secrets)
    return JobAnswer(**values)


def job_answer_body(spec: JobSpec) -> dict[str, Any]:
    """Return a job as in a job file, with secrets and without defaults."""
    state = JobState(
        id=0,
        next_fire_at=None,
        last_status=None,
        last_due_at=None,
        stop_reason="",
    )
    answer = job_answer(spec, state, enabled=bool(spec.enabled), with_secrets=True)
    body = to_builtins(answer)
    del body["state"]
    usual = {key: field.default for key, field in TOP.items()} | {"enabled": False}
    return {
        name: value for name, value in body.items() if value not in (None, [], {}, usual.get(name))
    }


def spec_of(body: Any, location: BodyLocation, wrong: FieldErrors) -> JobSpec:
    """Return the job that a body describes; what is wrong is added to `wrong`, and left out."""
    values: dict[str, Any] = {
        field.name: _from_api(field, value)
        for key, field in TOP.items()
        if key != FLOW and (value := getattr(body, key)) is not None
    }
    values |= _flow_of(body.flow, location, wrong)
    if location.app and values.setdefault("app", location.app) != location.app:
        wrong.add(f"{location.pointer}/app", f"expected {location.app!r} as in the path")
    values.setdefault("name", location.name)
    for name in _NAMES:
        if not values.get(name) and not is_wrong(f"{location.pointer}/{name}", wrong):
            wrong.add(f"{location.pointer}/{name}", f"missing field {name!r}")
    values |= _process_of(body, location, wrong)
    values |= _retry_of(body, location, wrong)
    values |= _schedule_of(body.schedule, location, wrong)
    for name, fields in _PLAIN.items():
        of_group = _values_of(getattr(body, name), fields)
        if is_wrong(f"{location.pointer}/{name}", wrong):
            add_rules(group_problems(of_group), location, wrong)
        else:
            values |= of_group
    has_script = body.script is not None and not is_wrong(f"{location.pointer}/script", wrong)
    for key in ("language", "source") if has_script else ():
        if not getattr(body.script, key):
            wrong.add(f"{location.pointer}/script/{key}", f"missing field {key!r}")
    return JobSpec(**({"app": "", "name": ""} | values))


def add_rules(problems: Iterable[Problem], location: BodyLocation, wrong: FieldErrors) -> None:
    """Add the rules that a job breaks, but not those of fields with which something is wrong."""
    known = [each["pointer"] for each in wrong]
    what_runs = [f"{location.pointer}/{name}" for name in ("handler", "script", "flow")]
    if any(_are_nested(place, one) for place in known for one in what_runs):
        known.append(f"{location.pointer}/handler")
    for problem in problems:
        detail = error_detail(problem, location.pointer)
        if not any(_are_nested(detail["pointer"], place) for place in known):
            wrong.append(detail)


def is_wrong(place: str, wrong: FieldErrors) -> bool:
    """Return whether something is wrong at a place, or within it."""
    return any(_are_nested(each["pointer"], place) for each in wrong)


def _are_nested(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


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
        return in_short(short, said)
    except Problem as problem:
        wrong.add(f"{location.pointer}/{problem.field}", str(problem))
        return {}


def _schedule_of(schedule: Any, location: BodyLocation, wrong: FieldErrors) -> dict[str, Any]:
    if schedule is None or schedule == NoSchedule.keyword:
        return {}
    options = ScheduleOptions.of({key: getattr(schedule, key) for key in OPTIONS})
    if is_wrong(f"{location.pointer}/schedule", wrong):
        problems = (each.at(f"schedule/{each.field}") for each in options.problems())
        add_rules(problems, location, wrong)
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
        "schedule_options": options,
        "timezone": schedule.timezone or "",
    }


def _values_of(group: Any, fields: Mapping[str, Field]) -> dict[str, Any]:
    if group is None:
        return {}
    return {
        field.name: _from_api(field, value)
        for key, field in fields.items()
        if (value := getattr(group, key)) is not None
    }


def _group(spec: JobSpec, group: str, fields: Mapping[str, Field], *, with_secrets: bool) -> Any:
    """Return a group; None if all its fields have their defaults."""
    given = {key: getattr(spec, field.name) for key, field in fields.items()}
    if all(value == fields[key].default for key, value in given.items()):
        return None
    hidden = () if with_secrets else (key for key in given if isinstance(fields[key].kind, Webhook))
    given |= {key: without_secret(given[key]) for key in hidden if given[key]}
    return _BODIES[group](**{key: _to_api(value) or None for key, value in given.items()})


def _known(schedule: Mapping[str, str | int]) -> dict[str, Any]:
    """Return a stored schedule in the types of its keywords; broken ones are left out."""
    return {
        word: value
        for word, value in schedule.items()
        if word not in _KEYWORDS or isinstance(value, int) == (_KEYWORDS[word].value_form in _WHOLE)
    }
