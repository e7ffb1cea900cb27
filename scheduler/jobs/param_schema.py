"""Checks a run's param: its length, and against the JSON Schema of its handler's params. Pure.

It knows the keywords that msgspec and pydantic write. A `pattern` is left to the job process: the
schema comes from an executor, and a regular expression could keep a scheduler busy for ever.
Keywords that it does not know allow everything. `warren try` imports this, so it must import
little.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from warren.broker.messages import PARAM_BYTES
from warren.resources.spelling import nearest
from warren.scheduler.problems import Code, Problem


def check_param(param: str) -> None:
    """Raise Problem if the parameter is longer than PARAM_BYTES in UTF-8."""
    size = len(param.encode(errors="replace"))
    if size > PARAM_BYTES:
        raise Problem(Code.PARAM_TOO_LONG, "param", most=PARAM_BYTES, got=size)


#: The most problems reported of a param, and the most steps; after those the rest counts as valid.
MAX_PROBLEMS = 20
MAX_STEPS = 100_000
#: How many schemas may be inside each other.
MAX_DEPTH = 60
#: The most characters of what an object takes.
MAX_WORDS = 1_000
#: The most characters of a wrong value that are shown.
_SHOWN = 100

Schema = Mapping[str, Any]


def param_problems(schema: Schema, param: str) -> list[Problem]:
    """Return everything in a param that does not fit; an empty one is the empty object."""
    try:
        value = msgspec.json.decode(param or "{}")
    except (msgspec.MsgspecError, RecursionError) as error:
        return [Problem(Code.PARAM_NO_JSON, "param", fault=str(error))]
    return list(_Check(schema).of(value))


def params_in_words(schema: Schema) -> str:
    """Return what an object takes: `day: date, parts: integer = 1, note?: string`."""
    whole = resolved(schema, schema)
    properties = whole.get("properties")
    required = _listed(whole.get("required"))
    parts: list[str] = []
    for name, part in (properties if isinstance(properties, Mapping) else {}).items():
        described = resolved(schema, part)
        words = _in_words(schema, part)
        if name in required:
            parts.append(f"{name}: {words}")
        elif "default" in described:
            parts.append(f"{name}: {words} = {shown(described['default'])}")
        else:
            parts.append(f"{name}?: {words}")
    return ", ".join(parts)[:MAX_WORDS]


def _in_words(schema: Schema, part: Any) -> str:
    part = resolved(schema, part)
    if choices := _listed(part.get("anyOf")) or _listed(part.get("oneOf")):
        return _either([_in_words(schema, choice) for choice in choices])
    if allowed := _listed(part.get("enum")):
        return " or ".join(map(shown, allowed[:20]))
    if "const" in part:
        return shown(part["const"])
    if items := part.get("items"):
        return f"array of {_in_words(schema, items)}"
    return str(part.get("format") or _either(_types(part)) or "anything")


class _Check:
    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._steps = 0

    def of(self, value: Any) -> Iterator[Problem]:
        problems = self._problems(self._root, value, "param", 0)
        for _, problem in zip(range(MAX_PROBLEMS), problems, strict=False):
            yield problem

    def _problems(self, schema: Any, value: Any, place: str, depth: int) -> Iterator[Problem]:
        self._steps += 1
        if not isinstance(schema, Mapping) or self._steps > MAX_STEPS or depth > MAX_DEPTH:
            return
        if "$ref" in schema:
            yield from self._problems(self.target(schema["$ref"]), value, place, depth + 1)
        for part in _listed(schema.get("allOf")):
            yield from self._problems(part, value, place, depth + 1)
        choices = _listed(schema.get("anyOf")) or _listed(schema.get("oneOf"))
        if choices:
            yield from self._best(choices, value, place, depth)
        if problem := _own_problem(schema, value, place):
            yield problem
        elif isinstance(value, dict):
            yield from self._of_object(schema, value, place, depth)
        elif isinstance(value, list):
            yield from self._of_list(schema, value, place, depth)

    def _best(self, choices: list[Any], value: Any, place: str, depth: int) -> Iterator[Problem]:
        """Yield the problems with the choice that has most in common with the value."""
        tried = [[*self._problems(choice, value, place, depth + 1)] for choice in choices]
        if all(tried):
            kinds = [kind for choice in choices for kind in self._kinds(choice)]
            nearer = [problems_ for problems_ in tried if not _is_kind(problems_[0], place)]
            if nearer:
                yield from min(nearer, key=len)
            else:
                yield _problem(Code.PARAM_TYPE, place, value, kind=_either(kinds))

    def _kinds(self, schema: Any) -> list[str]:
        if not isinstance(schema, Mapping):
            return []
        named = self.target(schema["$ref"]) if "$ref" in schema else schema
        return _types(named) or ["one of them"] if isinstance(named, Mapping) else []

    def _of_object(
        self, schema: Schema, value: dict[str, Any], place: str, depth: int
    ) -> Iterator[Problem]:
        known = schema.get("properties")
        known = known if isinstance(known, Mapping) else {}
        others = schema.get("additionalProperties", True)
        for name in _listed(schema.get("required")):
            if name not in value:
                where = _within(place, name)
                yield Problem(Code.PARAM_MISSING, where, name=_name(where))
        for name, part in value.items():
            where = _within(place, name)
            if name in known:
                yield from self._problems(known[name], part, where, depth + 1)
            elif others is False:
                near = nearest(name[:_SHOWN], known)
                code = Code.PARAM_UNKNOWN_NEAR if near else Code.PARAM_UNKNOWN
                yield Problem(code, where, name=_name(where), **{"near": near} if near else {})
            else:
                yield from self._problems(others, part, where, depth + 1)

    def _of_list(
        self, schema: Schema, value: list[Any], place: str, depth: int
    ) -> Iterator[Problem]:
        first = _listed(schema.get("prefixItems"))
        for number, part in enumerate(value):
            kind = first[number] if number < len(first) else schema.get("items")
            yield from self._problems(kind, part, f"{place}/{number}", depth + 1)

    def target(self, reference: Any) -> Any:
        """Return the schema that a reference such as `#/$defs/Params` names."""
        target_: Any = self._root
        for part in str(reference).removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            target_ = target_.get(name) if isinstance(target_, Mapping) else None
        return target_


def resolved(schema: Schema, part: Any) -> Schema:
    """Return a part of a schema, with its reference resolved; empty if the reference is broken."""
    for _ in range(MAX_DEPTH):
        if not isinstance(part, Mapping):
            break
        if "$ref" not in part:
            return part
        others = {name: value for name, value in part.items() if name != "$ref"}
        target = _Check(schema).target(part["$ref"])
        part = {**target, **others} if isinstance(target, Mapping) else None
    return {}


def _own_problem(schema: Schema, value: Any, place: str) -> Problem | None:
    """Return what is wrong with a value itself, regardless of its parts."""
    kinds = _types(schema)
    if kinds and not any(_TYPES.get(kind, _anything)(value) for kind in kinds):
        return _problem(Code.PARAM_TYPE, place, value, kind=_either(kinds))
    if "enum" in schema or "const" in schema:
        allowed = _listed(schema.get("enum")) if "enum" in schema else [schema["const"]]
        if not any(value == choice and type(value) is type(choice) for choice in allowed):
            words = ", ".join(map(shown, allowed[:20]))
            return _problem(Code.PARAM_CHOICE, place, value, choices=words)
    read = _FORMATS.get(str(schema.get("format"))) if isinstance(value, str) else None
    if read is not None and not _reads(read, value):
        return _problem(Code.PARAM_TYPE, place, value, kind=schema["format"])
    for rule, holds in _RULES.items():
        if rule in schema and not _holds(holds, value, schema[rule]):
            return _problem(Code.PARAM_RULE, place, value, rule=f"{rule} {shown(schema[rule])}")
    return None


def _is_kind(problem: Problem, place: str) -> bool:
    """Whether the problem is that a value has the wrong type."""
    return problem.field == place and problem.code in (Code.PARAM_TYPE, Code.PARAM_CHOICE)


def _problem(code: Code, place: str, value: Any, **facts: str) -> Problem:
    return Problem(code, place, name=_name(place), got=shown(value), **facts)


def _name(place: str) -> str:
    """Return the path of a value within the param, as it is shown."""
    return (place.partition("/")[2] or place)[:_SHOWN]


def shown(value: Any) -> str:
    """Return a value as problems show it: as JSON, cut."""
    return json.dumps(value, ensure_ascii=False)[:_SHOWN]


def _within(place: str, name: Any) -> str:
    return f"{place}/{str(name).replace('~', '~0').replace('/', '~1')}"


def _either(kinds: list[str]) -> str:
    return " or ".join(dict.fromkeys(kinds))


def _types(schema: Schema) -> list[str]:
    kind = schema.get("type")
    return [kind] if isinstance(kind, str) else [str(name) for name in _listed(kind)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _anything(_value: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}
_FORMATS: dict[str, Callable[[str], object]] = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "time": time.fromisoformat,
    "uuid": UUID,
    "decimal": Decimal,
}
_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: not _is_number(value) or value >= bound,
    "maximum": lambda value, bound: not _is_number(value) or value <= bound,
    "exclusiveMinimum": lambda value, bound: not _is_number(value) or value > bound,
    "exclusiveMaximum": lambda value, bound: not _is_number(value) or value < bound,
    "minLength": lambda value, bound: not isinstance(value, str) or len(value) >= bound,
    "maxLength": lambda value, bound: not isinstance(value, str) or len(value) <= bound,
    "minItems": lambda value, bound: not isinstance(value, list) or len(value) >= bound,
    "maxItems": lambda value, bound: not isinstance(value, list) or len(value) <= bound,
    "minProperties": lambda value, bound: not isinstance(value, dict) or len(value) >= bound,
    "maxProperties": lambda value, bound: not isinstance(value, dict) or len(value) <= bound,
}


def _reads(read: Callable[[str], object], value: str) -> bool:
    try:
        read(value)
    except (ValueError, ArithmeticError):  # of a Decimal
        return False
    return True


def _holds(holds: Callable[[Any, Any], bool], value: Any, bound: Any) -> bool:
    try:
        return holds(value, bound)
    except TypeError:
        return True  # the schema is odd, not the value
