"""Reads YAML safely into a tree of nodes that know their files and lines."""

import io
import re
from typing import Any

import yaml

from warren.errors import InvalidEntry, Line
from warren.jobfile.five_fields import SHORTCUTS, meant
from warren.scheduler.jobs.places import JOB_FILE_BYTES

#: The most levels of nesting; the grammar needs six, and libyaml crashes at some 10,000.
DEPTH = 20
#: The most aliases in a file, and the most values that they stand for in total.
ALIASES = 10_000
ALIASED_VALUES = 100_000
#: A field whose text begins with a sign of YAML, up to what follows it in its line.
_BEGINS_LIKE_YAML = re.compile(r"""([\w-]+):\s+([*@?%`][^"'{}\[\]#]*?)(?=\s*(?:,\s*\w+:|[}#]|$))""")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
