"""Reads YAML safely and strictly: a tree of nodes that know their files and lines, and its fields.

All problems of fields are collected.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import yaml

from warren.broker.durations import DURATION, whole_seconds
from warren.errors import InvalidEntry, Line
from warren.jobfile.five_fields import SHORTCUTS, meant
from warren.resources.job_files import JOB_FILE_BYTES
from warren.resources.spelling import did_you_mean
from warren.scheduler.problems import Problem

T = TypeVar("T")
R = TypeVar("R")
#: The most levels of nesting; the grammar needs six, and libyaml crashes at some 10,000.
DEPTH = 20
#: The most aliases in a file, and the most values that they stand for in total.
ALIASES = 10_000
ALIASED_VALUES = 100_000
#: A field whose text begins with a sign of YAML, up to what follows it in its line.
_BEGINS_LIKE_YAML = re.compile(r"""([\w-]+):\s+([*@?%`][^"'{}\[\]#]*?)(?=\s*(?:,\s*\w+:|[}#]|$))""")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_DECIMAL = re.compile(r"[-+]?\d{1,9}(\.\d{1,9})?")
_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


class _Stream(io.StringIO):
    """A text that tells the loader the name of its file."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.name = name


def tree_of(text: str, name: str) -> yaml.Node:
    """Return the single document of a file, which is called `name` in messages.

    Raises:
        InvalidEntry: it is too large, too deep, has too many aliases, is not YAML, empty, or has
            several documents.

    """
    if len(text) > JOB_FILE_BYTES:
        words = f"expected a file of up to {JOB_FILE_BYTES} bytes, got a larger one"
        raise InvalidEntry(Line(1, name), words)
    try:
        _check_events(text, name)
        node = yaml.compose(_Stream(text, name), Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _of_mark(error, text, name) from error
    except yaml.YAMLError as error:
        raise _of_reader(error, text, name) from error
    if node is None:
        raise InvalidEntry(Line(1, name), "the file is empty")
    return node


class Filled(yaml.ScalarNode):
    """A scalar that was filled in: a text or, where one is wanted, the number it looks like."""


def line_of(node: yaml.Node) -> Line:
    """Return the line where a node begins."""
    return Line(node.start_mark.line + 1, node.start_mark.name)


def _check_events(text: str, name: str) -> None:
    gauge = _SizeGuard()
    for event in yaml.parse(_Stream(text, name), Loader=_LOADER):
        gauge.take(event)


class _SizeGuard:
    """Measures a file's events, and raises InvalidEntry when there are too many."""

    def __init__(self) -> None:
        self._values = 0
        #: The open collections: their anchors, and how many values came before them.
        self._open: list[tuple[str | None, int]] = []
        self._sizes: dict[str, int] = {}
        self._aliases = 0
        self._aliased = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._values += 1
            self._note_size(event.anchor, self._values - 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._values))
            self._values += 1
            if len(self._open) > DEPTH:
                raise InvalidEntry(
                    _line(event.start_mark), f"expected up to {DEPTH} levels of nesting"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            self._note_size(*self._open.pop())
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        # An alias inside its own anchor counts once: readers go no deeper than the grammar.
        size = self._sizes.get(event.anchor or "", 1)
        self._values += size
        self._aliases += 1
        self._aliased += size
        for count, most, what in (
            (self._aliases, ALIASES, "aliases"),
            (self._aliased, ALIASED_VALUES, "values behind aliases"),
        ):
            if count > most:
                raise InvalidEntry(
                    _line(event.start_mark), f"expected up to {most} {what}, got more"
                )

    def _note_size(self, anchor: str | None, began: int) -> None:
        if anchor is not None:
            self._sizes[anchor] = self._values - began


def _of_mark(error: yaml.MarkedYAMLError, text: str, name: str) -> InvalidEntry:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return InvalidEntry(Line(1, name), f"not YAML: {error.problem or error.context}")
    said = "".join(text.split("\n")[mark.line : mark.line + 1])[:1_000]
    if (quoted := _in_quotes(said)) and "undefined alias" not in str(error.problem):
        return InvalidEntry(_line(mark), f"not YAML: put it in quotes: {quoted[:200]}")
    return InvalidEntry(_line(mark), f"not YAML: {error.problem or error.context}")


def _in_quotes(line: str) -> str:
    """Return a line with quotes around texts that need them; empty = it has none such.

    These begin like something of YAML: `*/5 * * * *` like an alias, `@hourly` like nothing yet.
    """
    quoted = _BEGINS_LIKE_YAML.sub(_quoted, line).strip()
    return quoted if quoted != line.strip() else ""


def _quoted(field: re.Match[str]) -> str:
    key, value = field.groups()
    value = SHORTCUTS.get(value.lower(), value)
    value = f'"{(meant(value) if key == "cron" else "") or value}"'
    return f"{key}: {{unix_cron: {value}}}" if key == "schedule" else f"{key}: {value}"


def _of_reader(error: yaml.YAMLError, text: str, name: str) -> InvalidEntry:
    position = getattr(error, "position", 0) or 0
    line = Line(text.count("\n", 0, position) + 1, name)
    return InvalidEntry(line, "not YAML: a character that YAML forbids")


def _line(mark: Any) -> Line:
    return Line(mark.line + 1, mark.name)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value and the key's line."""

    name: str
    line: Line
    node: yaml.Node


def entries(node: yaml.Node, what: str) -> Iterator[Entry | InvalidEntry]:
    """Yield the entries of a mapping, and problems of its keys: not text, or duplicate.

    What it merges (`<<: *base`) comes last, without the keys that it has itself.

    Raises:
        InvalidEntry: it is not a mapping, or merges something else.

    """
    if not isinstance(node, yaml.MappingNode) or node.tag != _TAG + "map":
        raise InvalidEntry(line_of(node), f"expected {what} to be a mapping, got: {shown(node)}")
    seen: set[str] = set()
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if key.tag == _TAG + "merge":
            merged += _bases(value)
        elif not isinstance(key, yaml.ScalarNode):
            yield InvalidEntry(line_of(key), f"expected a field's name, got: {shown(key)}")
        elif key.value in seen:
            yield InvalidEntry(line_of(key), f"duplicate field {key.value[:100]!r}")
        else:
            seen.add(key.value)
            yield Entry(key.value, line_of(key), value)
    for base in merged:
        yield from _merged(node, base, what, seen)


def _merged(
    node: yaml.Node, base: yaml.Node, what: str, seen: set[str]
) -> Iterator[Entry | InvalidEntry]:
    """Yield what a mapping merges, without the keys that were seen."""
    if _merges(base):
        raise InvalidEntry(line_of(node), f"{what} merges a mapping that merges another one")
    for entry in entries(base, f"what {what} merges"):
        if isinstance(entry, InvalidEntry):
            yield entry
        elif entry.name not in seen:
            seen.add(entry.name)
            yield entry


def _bases(node: yaml.Node) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]


def _merges(node: yaml.Node) -> bool:
    is_mapping = isinstance(node, yaml.MappingNode)
    return is_mapping and any(key.tag == _TAG + "merge" for key, _ in node.value)


def items(node: yaml.Node, what: str) -> list[yaml.Node]:
    """Return the items of a list.

    Raises:
        InvalidEntry: it is not a list.

    """
    if not isinstance(node, yaml.SequenceNode) or node.tag != _TAG + "seq":
        raise InvalidEntry(line_of(node), f"expected {what} to be a list, got: {shown(node)}")
    return list(node.value)


def read_each(parts: Iterable[T], read: Callable[[T], R]) -> list[R]:
    """Return what is read of each part.

    Raises:
        InvalidEntry: with all that is wrong.

    """
    values, wrong = list[R](), list[InvalidEntry]()
    for part in parts:
        try:
            values.append(read(part))
        except InvalidEntry as problem:
            wrong.append(problem)
    if wrong:
        raise InvalidEntry.of(wrong)
    return values


def valid(entry: Entry | InvalidEntry) -> Entry:
    """Return an entry of a mapping; raise it if it is a problem."""
    if isinstance(entry, InvalidEntry):
        raise entry
    return entry


def text(node: yaml.Node, what: str) -> str:
    """Return a text; numbers and booleans are texts only if they are quoted.

    Raises:
        InvalidEntry: it is not a text.

    """
    if _is(node, "str"):
        return str(node.value)
    quoted = isinstance(node, yaml.ScalarNode) and not is_null(node)
    hint = "; put it in quotes" if quoted else ""
    if what == "param" and isinstance(node, yaml.CollectionNode):
        hint = "; write JSON as text in quotes, such as '{\"day\": 1}'"
    raise InvalidEntry(line_of(node), f"expected {what} to be text, got: {shown(node)}{hint}")


def instant(node: yaml.Node, what: str) -> str:
    """Return the text of a timestamp, quoted or not."""
    return str(node.value) if _is(node, "timestamp") else text(node, what)


def whole_number(node: yaml.Node, what: str) -> int:
    """Return a whole number written in plain decimal digits."""
    if _is(node, "int") and _INTEGER.fullmatch(node.value):
        return int(node.value)
    raise InvalidEntry(line_of(node), f"expected {what} to be a whole number, got: {shown(node)}")


def seconds(node: yaml.Node, what: str) -> int:
    """Return whole seconds, written as a number or with a unit: `90`, `90s`, `5m`, `2h`, `1d`."""
    duration = whole_seconds(node.value, needs_unit=True) if _is(node, "str") else None
    if duration is not None:
        return duration
    if _is(node, "int") and _INTEGER.fullmatch(node.value):
        return int(node.value)
    raise InvalidEntry(
        line_of(node),
        f"expected {what} to be whole seconds, or {DURATION}, got: {shown(node)}",
    )


def share(node: yaml.Node, what: str) -> float:
    """Return a number such as `0.2`."""
    if (_is(node, "float") or _is(node, "int")) and _DECIMAL.fullmatch(node.value):
        return float(node.value)
    raise InvalidEntry(
        line_of(node), f"expected {what} to be a number from 0 to 1, got: {shown(node)}"
    )


def boolean(node: yaml.Node, what: str) -> bool:
    """Return true or false."""
    if _is(node, "bool") and node.value.lower() in _BOOLEANS:
        return _BOOLEANS[node.value.lower()]
    raise InvalidEntry(line_of(node), f"expected {what} to be true or false, got: {shown(node)}")


def is_null(node: yaml.Node) -> bool:
    """Return whether a value is left out: `key:` or `key: null`."""
    return _is(node, "null")


def shown(node: yaml.Node) -> str:
    """Return a value for a message."""
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if is_null(node) else repr(node.value[:100])
    kind = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"
    plain = node.tag in (_TAG + "seq", _TAG + "map")
    return kind if plain else f"{kind} tagged {node.tag.removeprefix(_TAG)[:100]}"


def scalar_kind(node: yaml.Node) -> str:
    """Return the type of a scalar as YAML names it, such as `int`."""
    return node.tag.removeprefix(_TAG)


def _is(node: yaml.Node, kind: str) -> bool:
    if not isinstance(node, yaml.ScalarNode):
        return False
    return node.tag == _TAG + kind or (kind == "str" and isinstance(node, Filled))


Read = Callable[[yaml.Node, str], Any]


class YamlReader:
    """Reads values, and collects the problems of one file."""

    def __init__(self) -> None:
        self.wrong: list[InvalidEntry] = []

    def add_problem(self, line: Line, words: str) -> None:
        """Add a problem of the file's form."""
        self.wrong.append(InvalidEntry(line, words))

    def add_broken_rule(self, line: Line, problem: Problem) -> None:
        """Add a value that breaks a rule."""
        self.wrong.append(InvalidEntry(line, str(problem), problem.code.name.lower()))

    def fields(
        self,
        node: yaml.Node,
        what: str,
        known: Sequence[str],
        *,
        extensions: bool = False,
        instead: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Entry]:
        """Return the known fields of a mapping by name; unknown and duplicate ones are problems.

        `instead` says what to use instead of some. With `extensions`, names that begin with `x-`
        are allowed: their anchors are merged into other mappings.
        """
        by_name = {}
        try:
            for entry in entries(node, what):
                if isinstance(entry, InvalidEntry):
                    self.wrong.append(entry)
                elif entry.name in known:
                    by_name[entry.name] = entry
                elif not (extensions and entry.name.startswith("x-")):
                    hint = did_you_mean(entry.name, known, instead)
                    self.add_problem(entry.line, f"unknown field {entry.name[:100]!r}{hint}")
        except InvalidEntry as wrong:
            self.wrong.append(wrong)
        return by_name

    def value(self, read: Read, entry: Entry | None) -> Any:
        """Return a field's value; None if it is missing or invalid."""
        if entry is None:
            return None
        try:
            return read(entry.node, entry.name)
        except InvalidEntry as wrong:
            self.wrong += [wrong, *wrong.others]
            return None

    def items(self, entry: Entry) -> list[yaml.Node]:
        """Return the items of a list field; empty if it is invalid."""
        return self.value(items, entry) or []

    def check(self, line: Line, rule: Callable[[], None]) -> None:
        """Add the problem that a rule raises."""
        try:
            rule()
        except Problem as problem:
            self.add_broken_rule(line, problem)
