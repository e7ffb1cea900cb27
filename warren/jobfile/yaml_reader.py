"""Reads fields of YAML mappings and collects all problems instead of stopping at the first.

Reads files as a whole that are no larger than a job file may be.
"""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

import yaml

from warren.errors import CommandError, InvalidEntry
from warren.jobfile.yaml_tree import Entry, entries, items
from warren.scheduler.commands.job_files.job_file import JOB_FILE_BYTES
from warren.scheduler.problems import Problem


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

    def fields(self, node: yaml.Node, what: str, known: Sequence[str]) -> dict[str, Entry]:
        """Return the known fields of a mapping by name; unknown and duplicate ones are problems."""
        found = {}
        try:
            for entry in entries(node, what):
                if isinstance(entry, InvalidEntry):
                    self.wrong.append(entry)
                elif entry.name in known:
                    found[entry.name] = entry
                else:
                    self.add_problem(
                        entry.line,
                        f"unknown field {entry.name[:100]!r}{did_you_mean(entry.name, known)}",
                    )
        except InvalidEntry as wrong:
            self.wrong.append(wrong)
        return found

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
