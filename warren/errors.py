"""The errors of the command line: lines for people, never a stack trace.

WarrenError
├── CommandError      one thing is wrong
├── SettingsError     every problem of the settings, a line each
└── JobFileError      every problem of a job file, a line each
"""

from collections.abc import Sequence


class WarrenError(Exception):
    """Something is wrong that the user can put right; `lines` says what."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


class CommandError(WarrenError):
    """One thing is wrong."""

    def __init__(self, text: str) -> None:
        super().__init__([text])


class SettingsError(WarrenError):
    """The settings are wrong; one line for each problem."""


class JobFileError(WarrenError):
    """The job file is wrong; one line for each problem."""
