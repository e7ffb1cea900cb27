"""YAML as nodes that know their lines, and the reading of single values from them.

Hostile files are refused before a tree is built: size, encoding, depth. Aliases share nodes and
are never copied, so they cost nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: Largest file, in bytes: some 70,000 jobs.
FILE_BYTES = 5_000_000
#: Deepest nesting; the grammar needs six, and libyaml's tree builder crashes at some 10,000.
DEPTH = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?\d{1,18}")
_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}


class Wrong(Exception):
    """Something in the file is wrong, at a line of it."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value and the line where the key stands."""

    name: str
    line: int
    node: yaml.Node


def read_tree(path: Path) -> yaml.Node:
    """Return the one document of a file.

    Raises:
        Wrong: it is too large, too deep, not UTF-8, not YAML, empty, or several documents.
        OSError: it cannot be read.

    """
    with path.open("rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise Wrong(1, f"expected a file of up to {FILE_BYTES} bytes, got a larger one")
    text = _decoded(data)
    try:
        _check_depth(text)
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _of_mark(error) from error
    except yaml.YAMLError as error:
        raise _of_reader(error, text) from error
    if node is None:
        raise Wrong(1, "the file is empty")
    return node


def line_of(node: yaml.Node) -> int:
    """Return the line where a node begins, counted from 1."""
    return int(node.start_mark.line) + 1


def entries(node: yaml.Node, what: str) -> Iterator[Entry | Wrong]:
    """Give the entries of a mapping, and what is wrong with its keys: not text, or there twice."""
    if not isinstance(node, yaml.MappingNode) or node.tag != _TAG + "map":
        raise Wrong(line_of(node), f"expected {what} to be a mapping, got: {shown(node)}")
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            yield Wrong(line_of(key), f"expected a field's name, got: {shown(key)}")
        elif key.value in seen:
            yield Wrong(line_of(key), f"duplicate field {key.value[:100]!r}")
        else:
            seen.add(key.value)
            yield Entry(key.value, line_of(key), value)


def items(node: yaml.Node, what: str) -> list[yaml.Node]:
    """Return the items of a list."""
    if not isinstance(node, yaml.SequenceNode) or node.tag != _TAG + "seq":
        raise Wrong(line_of(node), f"expected {what} to be a list, got: {shown(node)}")
    return list(node.value)


def text(node: yaml.Node, what: str) -> str:
    """Return a text; a number or a truth value must be quoted to be one."""
    if _is(node, "str"):
        return str(node.value)
    quoted = isinstance(node, yaml.ScalarNode) and not is_nothing(node)
    hint = "; put it in quotes" if quoted else ""
    raise Wrong(line_of(node), f"expected {what} to be a text, got: {shown(node)}{hint}")


def instant(node: yaml.Node, what: str) -> str:
    """Return the text of an instant, quoted or not."""
    return str(node.value) if _is(node, "timestamp") else text(node, what)


def whole_number(node: yaml.Node, what: str) -> int:
    """Return a whole number written in plain decimal digits."""
    if _is(node, "int") and _INTEGER.fullmatch(node.value):
        return int(node.value)
    raise Wrong(line_of(node), f"expected {what} to be a whole number, got: {shown(node)}")


def truth(node: yaml.Node, what: str) -> bool:
    """Return true or false."""
    if _is(node, "bool"):
        return _BOOLEANS[node.value.lower()]
    raise Wrong(line_of(node), f"expected {what} to be true or false, got: {shown(node)}")


def is_nothing(node: yaml.Node) -> bool:
    """Return whether a value was left out: `key:` or `key: null`."""
    return _is(node, "null")


def shown(node: yaml.Node) -> str:
    """Return a value as it is named in a message."""
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if is_nothing(node) else repr(node.value[:100])
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
        raise Wrong(line, f"expected UTF-8, got the byte 0x{data[error.start]:02x}") from error


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH:
            raise Wrong(_line(event.start_mark), f"expected up to {DEPTH} levels of nesting")


def _of_mark(error: yaml.MarkedYAMLError) -> Wrong:
    line = _line(error.problem_mark or error.context_mark)
    return Wrong(line, f"not YAML: {error.problem or error.context}")


def _of_reader(error: yaml.YAMLError, text: str) -> Wrong:
    position = getattr(error, "position", 0) or 0
    return Wrong(text.count("\n", 0, position) + 1, "not YAML: a character that YAML forbids")


def _line(mark: Any) -> int:
    return int(mark.line) + 1 if mark else 1
