"""Reads bodies and queries into msgspec structs, and collects all problems.

msgspec alone stops at the first problem and ignores unknown fields.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from werkzeug.datastructures import MultiDict

from warren.admin_web.api.problem_answers import Refusal
from warren.resources.misfits import misfit
from warren.resources.spelling import did_you_mean

T = TypeVar("T")
#: The most problems in one answer.
MAX_ERRORS = 100
#: The attribute of a struct that says what to use instead of some fields.
INSTEAD_OF = "instead_of"
#: The attribute of a struct that its view reads, so that what is wrong with its types and what
#: breaks a rule are told together.
READ_BY_VIEW = "read_by_view"
_AT = re.compile(r" - at `\$(.*)`$")


class FieldErrors(list[dict[str, str]]):
    """The problems so far; `is_unknown`: whether one of them is an unknown field."""

    is_unknown = False

    def add(self, pointer: str, detail: str) -> None:
        """Add a problem at a JSON pointer; raise Refusal once there are MAX_ERRORS."""
        self.append({"pointer": pointer, "detail": detail})
        if len(self) >= MAX_ERRORS:
            refuse(self)


def parsed(data: bytes) -> Any:
    """Parse a JSON text; an empty text counts as an empty object.

    Raises:
        Refusal: 400, it is not JSON.

    """
    try:
        return msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, f"expected JSON: {error}") from error


def read_body(kind: type[T], value: Any) -> T:
    """Return a body as a struct.

    Raises:
        Refusal: 400 if there are unknown fields, else 422; with every problem.

    """
    wrong = FieldErrors()
    body = read_struct(kind, value, "", wrong)
    refuse(wrong)
    assert body is not None
    return body


def refuse(wrong: FieldErrors) -> None:
    """Raise Refusal if there are problems: 400 if a field is unknown, else 422."""
    if wrong.is_unknown:
        raise Refusal(400, "the body has unknown fields", errors=wrong)
    if wrong:
        raise Refusal(422, "the body is invalid", errors=wrong)


def refuse_values(wrong: FieldErrors) -> None:
    """Raise Refusal if there are problems of values, with all of them in its detail."""
    if wrong:
        raise Refusal(422, "; ".join(each["detail"] for each in wrong), errors=wrong)


def read_struct(kind: type[T], value: Any, pointer: str, wrong: FieldErrors) -> T | None:
    """Return an object as a struct; what is wrong is added to `wrong`, and left out.

    None if there is no object, or it lacks a required field.
    """
    if not isinstance(value, Mapping):
        wrong.add(pointer, f"expected an object, got: {_shown(value)}")
        return None
    fields: Any = {field.encode_name: field for field in _fields(kind)}
    instead = getattr(kind, INSTEAD_OF, {})
    for name in value:
        if name not in fields:
            wrong.is_unknown = True
            wrong.add(
                f"{pointer}/{_escaped(name)}",
                f"unknown field {name[:100]!r}{did_you_mean(name[:100], fields, instead)}",
            )
    made = {}
    is_complete = True
    for name, field in fields.items():
        before = len(wrong)
        if name in value:
            read = _read(field.type, value[name], f"{pointer}/{_escaped(name)}", wrong)
            if len(wrong) == before or read is not None:
                made[field.name] = read
        elif field.required:
            wrong.add(f"{pointer}/{_escaped(name)}", f"missing field {name!r}")
        is_complete &= field.name in made or not field.required
    return kind(**made) if is_complete else None


def read_query(kind: type[T], given: MultiDict[str, str]) -> T:
    """Return a query's parameters as a struct; a list is repeated or separated by commas.

    Raises:
        Refusal: 400 if there are unknown parameters, else 422; with every problem.

    """
    fields: Any = {field.encode_name: field for field in _fields(kind)}
    unknown = [name for name in given if name not in fields]
    wrong = [
        _parameter(name, f"unknown parameter {name[:100]!r}{did_you_mean(name[:100], fields)}")
        for name in unknown
    ]
    made: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in given:
            continue
        texts = given.getlist(name)
        try:
            made[field.name] = _parameter_value(field.type, texts)
        except msgspec.ValidationError as error:
            words = _AT.sub("", misfit(error, field.type))  # the place is one in `texts`
            wrong.append(_parameter(name, words))
    if wrong:
        words = "the query has unknown parameters" if unknown else "the query is invalid"
        raise Refusal(400 if unknown else 422, words, errors=wrong)
    return kind(**made)


def _parameter_value(kind: Any, texts: list[str]) -> Any:
    kinds = [arg for arg in get_args(kind) if arg is not type(None)]
    if len(kinds) < len(get_args(kind)):  # a parameter that is left out is None, a text never is
        kind = Union[tuple(kinds)]  # noqa: UP007 - of kinds that are known only here
    if "list" in str(kind):
        parts = [part for text in texts for part in text.split(",") if part]
        return msgspec.convert(parts, kind, strict=False)
    if len(texts) > 1:
        raise msgspec.ValidationError("expected it once")
    return msgspec.convert(texts[0], kind, strict=False)


def _parameter(name: str, detail: str) -> dict[str, str]:
    return {"parameter": name[:100], "detail": detail}


def _read(kind: Any, value: Any, pointer: str, wrong: FieldErrors) -> Any:
    inner = next(_structs_in(kind), None)
    if inner is not None and isinstance(value, Mapping):
        return read_struct(inner, value, pointer, wrong)
    if inner is not None and isinstance(value, list) and "list[" in str(kind):
        # Those that are wrong keep their places.
        return [
            read_struct(inner, item, f"{pointer}/{number}", wrong)
            for number, item in enumerate(value)
        ]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        before = len(wrong)
        for name, item in _items(value):
            for item_kind in _item_kinds(kind, type(value)):
                _read(item_kind, item, f"{pointer}/{_escaped(name)}", wrong)
        if len(wrong) > before:
            return None
        text = misfit(error, kind)
        place = _AT.search(text)
        deeper = "/".join(re.findall(r"\w+", place[1])) if place else ""
        detail = _AT.sub("", text)
        wrong.add(f"{pointer}/{deeper}" if deeper else pointer, detail[:1].lower() + detail[1:])
        return None


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the items of a list or an object with their names; of anything else, nothing."""
    if isinstance(value, list):
        return ((str(number), item) for number, item in enumerate(value))
    return value.items() if isinstance(value, dict) else ()


def _item_kinds(kind: Any, container: type) -> Iterator[Any]:
    """Yield the type of the items of a list or an object, if the type is such a container."""
    if get_origin(kind) is container:
        yield get_args(kind)[-1]
    elif get_origin(kind) in (Union, UnionType, Annotated):
        for part in get_args(kind):
            yield from _item_kinds(part, container)


#: Cached, as msgspec evaluates all annotations each time.
_fields: Callable[[Any], tuple[Any, ...]] = cache(msgspec.structs.fields)


def _structs_in(kind: Any) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for part in get_args(kind):
        yield from _structs_in(part)


def _escaped(name: str) -> str:
    return name[:100].replace("~", "~0").replace("/", "~1")


def _shown(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")
