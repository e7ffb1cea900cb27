"""The errors of the command line: lines for people, never a stack trace.

WarrenError
├── CommandError      one thing is wrong
├── SettingsError     every problem of the settings, a line each
└── JobFileError      every problem of a job file, a line each (an InvalidEntry each)
"""

from collections.abc import Sequence
from typing import Self


class WarrenError(Exception):
    """An error that the user can fix; `lines` are the messages."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


class CommandError(WarrenError):
    """One problem."""

    def __init__(self, text: str) -> None:
        super().__init__([text])


class SettingsError(WarrenError):
    """Invalid settings; one line for each problem."""


class Line(int):
    """The number of a line, and the name of its file; 0 = the whole file, or an option."""

    file: str

    def __new__(cls, number: int, file: str) -> Self:
        """Return a line; it counts and compares as its number."""
        line = super().__new__(cls, number)
        line.file = file
        return line

    @property
    def place(self) -> str:
        """Return where it is, for a message."""
        return f"{self.file}:{self}" if self else self.file


class InvalidEntry(Exception):
    """A problem in a job file, with its line, and the name of the rule that it breaks, if any.

    `others` are what else is wrong with the same field.
    """

    def __init__(
        self, line: Line, text: str, rule: str = "", *, others: Sequence["InvalidEntry"] = ()
    ) -> None:
        super().__init__(text)
        self.line = line
        self.text = text
        self.rule = rule
        self.others = tuple(others)

    @classmethod
    def of(cls, problems: Sequence["InvalidEntry"]) -> "InvalidEntry":
        """Return several problems of a field as one."""
        every = [each for problem in problems for each in (problem, *problem.others)]
        first = every[0]
        return cls(first.line, first.text, first.rule, others=every[1:])

    def __str__(self) -> str:
        """Return the problem after its place."""
        return f"{self.line.place}: {self.text}"


class JobFileError(WarrenError):
    """An invalid job file; one line for each problem.

    `problems` are all problems in the file, by line; empty if it could not be read.
    """

    def __init__(self, lines: Sequence[str], problems: Sequence[InvalidEntry] = ()) -> None:
        super().__init__(lines)
        self.problems = tuple(problems)
