"""Expressions in a job's settings: Jinja's syntax, read by its parser, without its statements.

    --day {{ run_date }} --month {{ months(run_date, -1) | format('%Y%m') }}

Allowed are names, parts of them (`result.rows`, `files[0]`), the FUNCTIONS, comparison, `and`,
`or`, `not`, and adding and subtracting numbers and days. Loops, assignments, multiplication and
attributes of Python's objects are refused when a template is read. So its cost is bounded by the
length of its text.

A function is called as `days(run_date, -1)` or as the filter `run_date | days(-1)`: it takes the
value first. None of them takes longer than its arguments are long.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

from jinja2 import Environment, TemplateSyntaxError, nodes

from warren.scheduler.problems import counted
from warren.scheduler.schedules.run_date import MAX_DAYS, MAX_MONTHS, MAX_WORKDAYS, months_later
from warren.scheduler.schedules.working_days import CalendarVersion, UnknownDay, workdays_later

#: What expressions compute with: what JSON holds, dates and times.
Value: TypeAlias = Any

#: The directives of `format`; C libraries would also take widths, as in `%1000000d`.
DIRECTIVES = "YmdHMSjyuwVGU%"
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIRECTIVE = re.compile("%(.?)", re.DOTALL)


#: The longest text of a Fault, which may quote what an expression reads.
FAULT_LENGTH = 1_000


class Fault(ValueError):
    """An expression cannot be read, or has no value; the text says what was expected.

    It can be stored, whatever it quotes: lone surrogates are escaped.
    """

    def __init__(self, words: str) -> None:
        super().__init__(words.encode(errors="backslashreplace").decode()[:FAULT_LENGTH])


def days(value: Value, number: Value) -> date:
    """Return the date that many days later; `-1` is the day before."""
    day, count = _day(value, "days"), _number(number, "days", MAX_DAYS)
    try:
        return day + timedelta(days=count)
    except OverflowError:
        raise Fault(f"there is no date {counted(number, 'day')} from {day}") from None


def months(value: Value, number: Value) -> date:
    """Return the same day that many months later, or the last of a month that has no such day."""
    day, count = _day(value, "months"), _number(number, "months", MAX_MONTHS)
    try:
        return months_later(day, count)
    except ValueError:
        raise Fault(f"there is no date {counted(number, 'month')} from {day}") from None


def workdays(value: Value, number: Value, calendar: CalendarVersion | None) -> date:
    """Return the nth working day after a date, or before it; 0 = it, or the next working day."""
    day, count = _day(value, "workdays"), _number(number, "workdays", MAX_WORKDAYS)
    if calendar is None:
        raise Fault("workdays needs a calendar: that of the job's run_date, or of its schedule")
    try:
        return workdays_later(calendar, day, count)
    except UnknownDay as error:
        raise Fault(str(error)) from None


def format_(value: Value, pattern: Value) -> str:
    """Return a date or time as `strftime` writes it, with the directives in DIRECTIVES."""
    if not isinstance(value, date):
        raise Fault(f"expected format of a date, got: {shown(value)}")
    if not isinstance(pattern, str):
        raise Fault(f"expected format with a text such as '%Y%m', got: {shown(pattern)}")
    for match in _DIRECTIVE.finditer(pattern):
        if not match[1] or match[1] not in DIRECTIVES:
            known = " ".join(f"%{letter}" for letter in DIRECTIVES)
            raise Fault(f"expected one of {known} in format, got: {match[0]!r}")
    return value.strftime(text(pattern))


def tojson(value: Value) -> str:
    """Return a value as JSON; dates and times are texts."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=text)
    except (ValueError, TypeError, RecursionError) as error:
        raise Fault(f"it cannot be written as JSON: {error}") from None


#: All functions by name.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "days": days,
    "months": months,
    "workdays": workdays,
    "format": format_,
    "tojson": tojson,
}
#: How many values each takes besides the first.
ARGUMENTS = {"days": 1, "months": 1, "workdays": 1, "format": 1, "tojson": 0}
#: The functions that get the calendar after their values, and where it is among the values that a
#: template may name; no name in a template is spelled like this.
OF_CALENDAR = frozenset({"workdays"})
CALENDAR = "<calendar>"


def text(value: Value) -> str:
    """Return a value as a template writes it: texts as they are, lists and objects as JSON.

    Raises:
        Fault: it cannot be written, or not be stored: it holds a lone surrogate.

    """
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    written = value if isinstance(value, str) else tojson(value)
    if not written.isascii() and (half := _SURROGATE.search(written)):
        raise Fault(f"the text holds half a character: {half[0]}")
    return written


def shown(value: Value) -> str:
    """Return a value as a message quotes it."""
    return (value if isinstance(value, str) else text(value))[:60] or "an empty text"


def _day(value: Value, function: str) -> date:
    if isinstance(value, datetime):
        return value.date()
    if not isinstance(value, date):
        raise Fault(f"expected {function} of a date, got: {shown(value)}")
    return value


def _number(value: Value, function: str, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > most:
        raise Fault(f"expected {function} with a number up to {most}, got: {shown(value)}")
    return value


#: The longest template, and the longest text that one may become, in bytes of UTF-8.
MAX_SOURCE_BYTES, MAX_RESULT_BYTES = 4_096, 65_536
#: How deep expressions may be nested.
MAX_DEPTH = 50
#: The largest number that an expression comes to: one of 1,000 digits.
MAX_NUMBER = 10**1_000 - 1

_SYNTAX = Environment(autoescape=False, keep_trailing_newline=True)  # noqa: S701 - only its parser is used, and this is no HTML
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": eq,
    "ne": ne,
    "lt": lt,
    "lteq": le,
    "gt": gt,
    "gteq": ge,
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
#: How messages call what is refused.
_WORDS = {
    nodes.Mul: "multiplication",
    nodes.Div: "division",
    nodes.FloorDiv: "division",
    nodes.Mod: "the operator %",
    nodes.Pow: "the operator **",
    nodes.Concat: "the operator ~",
    nodes.CondExpr: "a condition",
    nodes.Test: "a test",
    nodes.Slice: "a slice",
    nodes.List: "a list",
    nodes.Tuple: "a list",
    nodes.Dict: "a mapping",
    nodes.For: "a loop",
    nodes.If: "a statement",
    nodes.Assign: "an assignment",
    nodes.Macro: "a macro",
    nodes.Import: "an import",
    nodes.Include: "an import",
}


class Template:
    """A text with expressions between `{{` and `}}`."""

    def __init__(self, parts: list[str | nodes.Expr]) -> None:
        self._parts = parts

    @property
    def names(self) -> set[str]:
        """The names that it reads."""
        return {
            name.name
            for part in self._parts
            if isinstance(part, nodes.Node)
            for name in _walk(part)
            if isinstance(name, nodes.Name) and name.name not in FUNCTIONS
        }

    def render(self, values: Mapping[str, Value]) -> str:
        """Return the text with the values of its expressions.

        Raises:
            Fault: an expression has no value, or the text is over MAX_RESULT_BYTES long.

        """
        texts: list[str] = []
        left = MAX_RESULT_BYTES
        for part in self._parts:
            texts.append(part if isinstance(part, str) else text(_evaluated(part, values)))
            left -= len(texts[-1].encode(errors="replace"))
            if left < 0:
                raise Fault(f"the text is longer than {MAX_RESULT_BYTES:,} bytes")
        return "".join(texts)


@lru_cache(maxsize=4_096)
def read_template(source: str) -> Template:
    """Read a template.

    Raises:
        Fault: it is too long, cannot be read, or has something that is not allowed.

    """
    if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
        raise Fault(f"it is longer than {MAX_SOURCE_BYTES:,} bytes")
    parts: list[str | nodes.Expr] = []
    for output in _parsed(source).body:
        if not isinstance(output, nodes.Output):
            raise Fault(f"{_words(output)} is not allowed (line {output.lineno})")
        for part in output.nodes:
            if isinstance(part, nodes.TemplateData):
                parts.append(part.data)
            else:
                _check(part)
                parts.append(part)
    return Template(parts)


@lru_cache(maxsize=4_096)
def read_expression(source: str) -> Callable[[Mapping[str, Value]], Value]:
    """Read one expression, with or without `{{ }}`; return the function from names to its value.

    Raises:
        Fault: as for `read_template`, or it is not one expression.

    """
    inner = source.strip()
    inner = inner if inner.startswith("{{") else "{{" + inner + "}}"
    parts = read_template(inner)._parts  # noqa: SLF001 - of this module
    if len(parts) != 1 or isinstance(parts[0], str):
        raise Fault(f"expected one expression, got: {source[:60]!r}")
    expression = parts[0]
    return lambda values: _evaluated(expression, values)


def _evaluated(expression: nodes.Node, values: Mapping[str, Value]) -> Value:
    """Return the value of an expression.

    Raises:
        Fault: it has no value, for whatever reason; only its own run fails.

    """
    try:
        return _value(expression, values)
    except Fault:
        raise
    except Exception as error:  # noqa: BLE001 - the language cannot know what values may raise
        raise Fault(f"it has no value: {type(error).__name__}: {error}") from None


def _parsed(source: str) -> nodes.Template:
    try:
        return _SYNTAX.parse(source)
    except TemplateSyntaxError as error:
        raise Fault(f"{error.message} (line {error.lineno})") from None
    except RecursionError:
        raise Fault("it is nested too deeply") from None
    except Exception as error:  # noqa: BLE001 - such as numbers that Python does not read
        raise Fault(f"it cannot be read: {error}") from None


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _words(node: nodes.Node) -> str:
    return _WORDS.get(type(node), f"{type(node).__name__.lower()!r}")


def _check(node: nodes.Node, depth: int = 0) -> None:
    """Refuse what is not allowed."""
    if depth > MAX_DEPTH:
        raise Fault("it is nested too deeply")
    if type(node) not in _VALUE_OF and not isinstance(node, nodes.Operand):
        raise Fault(f"{_words(node)} is not allowed (line {node.lineno})")
    if isinstance(node, nodes.Call):
        if not isinstance(node.node, nodes.Name):
            raise Fault(f"only functions can be called (line {node.lineno})")
        _check_call(node.node.name, node, given=len(node.args) - 1)
    elif isinstance(node, nodes.Filter):
        _check_call(node.name, node, given=len(node.args))
    elif isinstance(node, nodes.Name) and node.name in FUNCTIONS:
        raise Fault(f"{node.name} is a function: {node.name}(…)")
    for child in node.iter_child_nodes(exclude=("node",) if isinstance(node, nodes.Call) else ()):
        _check(child, depth + 1)


def _check_call(name: str, node: nodes.Call | nodes.Filter, *, given: int) -> None:
    if name not in FUNCTIONS:
        raise Fault(f"unknown function {name!r}; there are {', '.join(FUNCTIONS)}")
    if node.kwargs or node.dyn_args is not None or node.dyn_kwargs is not None:
        raise Fault(f"expected {name} with values only, without names")
    if given != ARGUMENTS[name] or getattr(node, "node", None) is None:
        raise Fault(f"expected {name} with {ARGUMENTS[name] + 1} values, got: {max(0, given + 1)}")


def _value(node: nodes.Node, values: Mapping[str, Value]) -> Value:
    """Return what an expression comes to; `_check` has allowed it."""
    value = _VALUE_OF[type(node)](node, values)
    if _is_number(value) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise Fault("expected numbers of up to 1,000 digits")
    return value


def _call(node: Any, values: Mapping[str, Value]) -> Value:
    return _result(node.node.name, node.args, values)


def _filtered(node: Any, values: Mapping[str, Value]) -> Value:
    return _result(node.name, (node.node, *node.args), values)


def _result(name: str, args: Iterable[nodes.Node], values: Mapping[str, Value]) -> Value:
    given = [_value(each, values) for each in args]
    if name in OF_CALENDAR:
        given.append(values.get(CALENDAR))
    return FUNCTIONS[name](*given)


def _operation(sign: int) -> Callable[[Any, Mapping[str, Value]], Value]:
    return lambda node, values: _sum(_value(node.left, values), _value(node.right, values), sign)


def _signed(sign: int) -> Callable[[Any, Mapping[str, Value]], Value]:
    return lambda node, values: _sum(0, _value(node.node, values), sign)


def _named(name: str, values: Mapping[str, Value]) -> Value:
    if name not in values:
        known = [each for each in values if each != CALENDAR]
        raise Fault(f"unknown name {name!r}; there are {_listed(known)}")
    return values[name]


def _listed(names: Collection[str]) -> str:
    return ", ".join(names) or "none here"


def _part(value: Value, key: Value) -> Value:
    """Return what an object or a list holds; nothing else has parts."""
    if isinstance(value, Mapping) and isinstance(key, str):
        if key not in value:
            raise Fault(f"there is no {shown(key)!r}, only {_listed([*map(str, value)][:20])}")
        return value[key]
    if isinstance(value, list) and isinstance(key, int) and not isinstance(key, bool):
        if not -len(value) <= key < len(value):
            raise Fault(f"there is no item {key} of {len(value)}")
        return value[key]
    raise Fault(f"{shown(value)!r} has no part {shown(key)!r}")


def _compared(node: nodes.Compare, values: Mapping[str, Value]) -> bool:
    left = _value(node.expr, values)
    for operand in node.ops:
        right = _value(operand.expr, values)
        try:
            holds = _COMPARE[operand.op](left, right)
        except TypeError:
            raise Fault(f"cannot compare {shown(left)!r} with {shown(right)!r}") from None
        if not holds:
            return False
        left = right
    return True


def _sum(left: Value, right: Value, sign: int) -> Value:
    """Add or subtract numbers, or days to or from a date, or two dates."""
    if _is_number(left) and _is_number(right):
        return left + sign * right
    if isinstance(left, date) and isinstance(right, int) and not isinstance(right, bool):
        try:
            return left + timedelta(days=sign * right)
        except OverflowError:
            raise Fault(f"there is no date {counted(right, 'day')} from {left}") from None
    if sign < 0 and type(left) is type(right) and isinstance(left, date):
        return (left - right).days
    word = "add" if sign > 0 else "subtract"
    raise Fault(f"cannot {word} {shown(right)!r} and {shown(left)!r}: expected numbers, or days")


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_VALUE_OF: Mapping[type[nodes.Node], Callable[[Any, Mapping[str, Value]], Value]] = {
    nodes.Const: lambda node, _values: node.value,
    nodes.Name: lambda node, values: _named(node.name, values),
    nodes.Getattr: lambda node, values: _part(_value(node.node, values), node.attr),
    nodes.Getitem: lambda node, values: _part(_value(node.node, values), _value(node.arg, values)),
    nodes.Call: _call,
    nodes.Filter: _filtered,
    nodes.And: lambda node, values: _value(node.left, values) and _value(node.right, values),
    nodes.Or: lambda node, values: _value(node.left, values) or _value(node.right, values),
    nodes.Not: lambda node, values: not _value(node.node, values),
    nodes.Compare: _compared,
    nodes.Add: _operation(1),
    nodes.Sub: _operation(-1),
    nodes.Neg: _signed(-1),
    nodes.Pos: _signed(1),
}
