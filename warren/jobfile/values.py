"""Values for job files: `${NAME}` stands for one, everywhere but in the sources of scripts.

They come from files and options alone, never from the environment.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from warren.errors import InvalidEntry, Line
from warren.jobfile.escapes import VALUE_NAME
from warren.jobfile.sources import GivenValues, Source
from warren.jobfile.yaml_reader import Entry, did_you_mean, entries, shown
from warren.jobfile.yaml_tree import Filled, line_of, tree_of
from warren.scheduler.jobs.places import JOB_FILE_BYTES

#: `${NAME}`, or `$${NAME}`, which stands for `${NAME}` itself.
_PLACE = re.compile(rf"\$(\$)?\{{({VALUE_NAME})\}}")
_RESOLVER: Any = yaml.resolver.Resolver()
_STR, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"


class Values:
    """The values by name, and which of them were used.

    Raises:
        InvalidEntry: a file is no YAML.

    """

    def __init__(self, given: GivenValues) -> None:
        self.problems: list[InvalidEntry] = []
        self._texts: dict[str, str] = {}
        self._lines: dict[str, Line] = {}
        self._used: set[str] = set()
        self._left = JOB_FILE_BYTES
        self._option, self._ways = given.option, given.ways
        for source in given.files:
            self._read(source)
        names: set[str] = set()
        for text in given.texts:
            self._set(text, names)

    def unused(self) -> Iterator[InvalidEntry]:
        """Give a problem for each value that no job file has a place for."""
        for name, line in self._lines.items():
            if name not in self._used:
                near = did_you_mean(name, self._used)
                yield InvalidEntry(line, f"no job file has ${{{name}}}{near}")

    def fill(self, root: yaml.Node) -> yaml.Node:
        """Return a job file with its values filled in; those that are missing become problems."""
        return _Filling(self).tree(root)

    def filled(self, node: yaml.ScalarNode) -> yaml.ScalarNode:
        """Return a scalar with its values filled in."""
        if "${" not in node.value:
            return node
        text = _PLACE.sub(lambda place: self._value(place, node), node.value)
        if text == node.value:
            return node
        tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
        return Filled(_STR if tag == _NULL else tag, text, node.start_mark, node.end_mark)

    def _value(self, place: re.Match[str], node: yaml.Node) -> str:
        is_escaped, name = place.groups()
        if is_escaped:
            return f"${{{name}}}"
        self._used.add(name)
        text = self._texts.get(name)
        if text is None:
            near = did_you_mean(name, self._texts)
            words = (
                f"no value for ${{{name}}}{near or f'; give one by {self._ways.format(name=name)}'}"
            )
            self.problems.append(InvalidEntry(line_of(node), words))
            return ""
        self._left -= len(text)
        if self._left < 0:
            words = f"expected values of up to {JOB_FILE_BYTES} characters in total"
            raise InvalidEntry(line_of(node), words)
        return text

    def _read(self, source: Source) -> None:
        if not source.text.strip():
            return
        for entry in entries(tree_of(source.text, source.name), "a file of values"):
            if isinstance(entry, InvalidEntry):
                self.problems.append(entry)
            else:
                self._take(entry)

    def _take(self, entry: Entry) -> None:
        if not re.fullmatch(VALUE_NAME, entry.name):
            words = f"expected a name of letters, digits and _, got: {entry.name[:100]!r}"
            self.problems.append(InvalidEntry(entry.line, words))
        elif not isinstance(entry.node, yaml.ScalarNode) or entry.node.tag == _NULL:
            words = f"expected {entry.name} to be a text or a number, got: {shown(entry.node)}"
            self.problems.append(InvalidEntry(entry.line, words))
        else:
            self._texts[entry.name] = entry.node.value
            self._lines[entry.name] = entry.line

    def _set(self, text: str, names: set[str]) -> None:
        """Take the value of an option, and its name, which no other option may have."""
        name, equals, value = text.partition("=")
        line = Line(0, f"{self._option} {name}"[:100])
        if not equals or not re.fullmatch(VALUE_NAME, name):
            self.problems.append(InvalidEntry(line, f"expected NAME=VALUE, got: {text[:100]!r}"))
            return
        if name in names:
            self.problems.append(InvalidEntry(line, "expected each name once, got: it twice"))
            return
        names.add(name)
        self._texts[name] = value
        self._lines[name] = line


class _Filling:
    """Fills in the values of one tree; nodes that aliases share are filled in once."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._done: dict[tuple[int, bool], yaml.Node] = {}

    def tree(self, root: yaml.Node) -> yaml.Node:
        """Return the root with values; what its `x-…` fields hold is filled in where it is used."""
        if not isinstance(root, yaml.MappingNode):
            return root
        pairs = [
            (key, value if str(key.value).startswith("x-") else self._node(value, str(key.value)))
            for key, value in root.value
        ]
        return _like(root, pairs)

    def _node(self, node: yaml.Node, field: str) -> yaml.Node:
        """Return a node with values; `field` is the name of the mapping's entry that it is in."""
        if isinstance(node, yaml.ScalarNode):
            return self._values.filled(node)
        if not isinstance(node, yaml.CollectionNode):
            return node
        known = (id(node), field == "script")
        if known not in self._done:
            self._done[known] = node  # for an alias inside its own anchor
            self._done[known] = self._collection(node, field)
        return self._done[known]

    def _collection(self, node: yaml.CollectionNode, field: str) -> yaml.Node:
        if isinstance(node, yaml.SequenceNode):
            return _like(node, [self._node(item, field) for item in node.value])
        pairs = []
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if field == "script" and name == "source":
                pairs.append((key, value))
            else:
                pairs.append((key, self._node(value, field if name == "<<" else name)))
        return _like(node, pairs)


def _like(node: yaml.CollectionNode, value: list[Any]) -> yaml.Node:
    return type(node)(node.tag, value, node.start_mark, node.end_mark, node.flow_style)
