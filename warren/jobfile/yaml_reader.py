"""Reads YAML safely and strictly: first a tree with line numbers, then the fields of its mappings.

It collects all problems instead of stopping at the first. A file that is too large for a job file
is not read.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from warren.broker.durations import DURATION, seconds_of
from warren.errors import CommandError, InvalidEntry
from warren.scheduler.commands.job_files.job_file import JOB_FILE_BYTES
from warren.scheduler.problems import Problem

#: The most levels of nesting; the grammar needs six, and libyaml crashes at some 10,000.
DEPTH = 20
#: The most aliases in a file, and the most values that they stand for in total.
ALIASES = 10_000
ALIASED_VALUES = 100_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_DECIMAL = re.compile(r"[-+]?\d{1,9}(\.\d{1,9})?")
_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value and the key's line."""

    name: str
    line: int
    node: yaml.Node


def read_tree(path: Path) -> yaml.Node:
    """Return the single document of a file.

    Raises:
        InvalidEntry: it is too large, too deep, has too many aliases, is not UTF-8, not YAML,
            empty, or has several documents.
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        return tree_of(file.read(JOB_FILE_BYTES + 1))


def tree_of(data: bytes) -> yaml.Node:
    """Return the single document of a file's bytes; raises `InvalidEntry` as `read_tree` does."""
    if len(data) > JOB_FILE_BYTES:
        raise InvalidEntry(1, f"expected a file of up to {JOB_FILE_BYTES} bytes, got a larger one")
    text = _decoded(data)
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _of_mark(error) from error
    except yaml.YAMLError as error:
        raise _of_reader(error, text) from error
    if node is None:
        raise InvalidEntry(1, "the file is empty")
    return node


def line_of(node: yaml.Node) -> int:
    """Return the line where a node begins, from 1."""
    return int(node.start_mark.line) + 1


def line_at(root: yaml.Node, pointer: str) -> int:
    """Return the line of the value at a JSON pointer, or of the last existing value on the way."""
    node, line = root, line_of(root)
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        entry = next((child for child in _children(node) if child.name == name), None)
        if entry is None:
            break
        node, line = entry.node, entry.line
    return line


def _children(node: yaml.Node) -> Iterator[Entry]:
    if isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield Entry(str(number), line_of(item), item)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield Entry(str(key.value), line_of(key), value)


def entries(node: yaml.Node, what: str) -> Iterator[Entry | InvalidEntry]:
    """Yield the entries of a mapping, and problems of its keys: not text, or duplicate.

    What it merges (`<<: *base`) comes last, without the keys that it has itself.

    Raises:
        InvalidEntry: it is no mapping, or merges something else.

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
        InvalidEntry: it is no list.

    """
    if not isinstance(node, yaml.SequenceNode) or node.tag != _TAG + "seq":
        raise InvalidEntry(line_of(node), f"expected {what} to be a list, got: {shown(node)}")
    return list(node.value)


def text(node: yaml.Node, what: str) -> str:
    """Return a text; numbers and booleans are texts only if they are quoted.

    Raises:
        InvalidEntry: it is no text.

    """
    if _is(node, "str"):
        return str(node.value)
    quoted = isinstance(node, yaml.ScalarNode) and not is_null(node)
    hint = "; put it in quotes" if quoted else ""
    if what == "param" and isinstance(node, yaml.CollectionNode):
        hint = "; JSON is a text in quotes, such as '{\"day\": 1}'"
    raise InvalidEntry(line_of(node), f"expected {what} to be a text, got: {shown(node)}{hint}")


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
    duration = seconds_of(node.value, needs_unit=True) if _is(node, "str") else None
    if duration is not None and not duration % 1:
        return int(duration)
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


def _is(node: yaml.Node, kind: str) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _TAG + kind


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidEntry(
            line, f"expected UTF-8, got the byte 0x{data[error.start]:02x}"
        ) from error


def _check_events(text: str) -> None:
    gauge = _SizeGuard()
    for event in yaml.parse(text, Loader=_LOADER):
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


def _of_mark(error: yaml.MarkedYAMLError) -> InvalidEntry:
    line = _line(error.problem_mark or error.context_mark)
    return InvalidEntry(line, f"not YAML: {error.problem or error.context}")


def _of_reader(error: yaml.YAMLError, text: str) -> InvalidEntry:
    position = getattr(error, "position", 0) or 0
    return InvalidEntry(
        text.count("\n", 0, position) + 1, "not YAML: a character that YAML forbids"
    )


def _line(mark: Any) -> int:
    return int(mark.line) + 1 if mark else 1


def read_whole(file: BinaryIO, name: str) -> bytes:
    """Return the content of a file.

    Raises:
        CommandError: it is larger than a job file may be.

    """
    data = file.read(JOB_FILE_BYTES + 1)
    if len(data) > JOB_FILE_BYTES:
        raise CommandError(
            f"{name}: expected a file of up to {JOB_FILE_BYTES} bytes, got a larger one"
        )
    return data


Read = Callable[[yaml.Node, str], Any]


class YamlReader:
    """Reads values, and collects the problems of one file."""

    def __init__(self) -> None:
        self.wrong: list[InvalidEntry] = []

    def add_problem(self, line: int, words: str) -> None:
        """Add a problem of the file's form."""
        self.wrong.append(InvalidEntry(line, words))

    def add_broken_rule(self, line: int, problem: Problem) -> None:
        """Add a value that breaks a rule."""
        self.wrong.append(InvalidEntry(line, str(problem), problem.code.name.lower()))

    def fields(
        self, node: yaml.Node, what: str, known: Sequence[str], *, extensions: bool = False
    ) -> dict[str, Entry]:
        """Return the known fields of a mapping by name; unknown and duplicate ones are problems.

        With `extensions`, names that begin with `x-` are allowed: their anchors are
        merged into other mappings.
        """
        by_name = {}
        try:
            for entry in entries(node, what):
                if isinstance(entry, InvalidEntry):
                    self.wrong.append(entry)
                elif entry.name in known:
                    by_name[entry.name] = entry
                elif not (extensions and entry.name.startswith("x-")):
                    self.add_problem(
                        entry.line,
                        f"unknown field {entry.name[:100]!r}{did_you_mean(entry.name, known)}",
                    )
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
            self.wrong.append(wrong)
            return None

    def items(self, entry: Entry) -> list[yaml.Node]:
        """Return the items of a list field; empty if it is invalid."""
        return self.value(items, entry) or []

    def check(self, line: int, rule: Callable[[], None]) -> None:
        """Add the problem that a rule raises."""
        try:
            rule()
        except Problem as problem:
            self.add_broken_rule(line, problem)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` if a known name is similar, else nothing."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f", did you mean {near[0]!r}?" if near else ""
