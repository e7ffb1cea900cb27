"""What an errand prints, before the terminal's width and colours are known."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import click
import msgspec

from warren.views.terminal import (
    Screen,
    print_facts,
    print_json,
    print_table,
    print_text,
    visible,
    warn,
)

#: The colours of the signs that a line may begin with.
_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}


class Table(msgspec.Struct, tag="table", frozen=True):
    """A table; without rows, `nothing` is said on standard error."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    nothing: str


class Facts(msgspec.Struct, tag="facts", frozen=True):
    """Names and values, a line each."""

    facts: Mapping[str, str]


class Text(msgspec.Struct, tag="text", frozen=True):
    """A text of several lines with its title."""

    title: str
    text: str


class Line(msgspec.Struct, tag="line", frozen=True):
    """A line; `sign` decides its colour."""

    text: str
    sign: str = ""


class Document(msgspec.Struct, tag="document", frozen=True):
    """A text that is printed as it is, such as a job file."""

    text: str


class Record(msgspec.Struct, tag="record", frozen=True):
    """A JSON object on a line of its own."""

    value: Mapping[str, Any]


class Warned(msgspec.Struct, tag="warning", frozen=True):
    """A warning on standard error."""

    text: str


Part: TypeAlias = Table | Facts | Text | Line | Document | Record | Warned


class Output(msgspec.Struct, kw_only=True):
    """What an errand prints and returns.

    Attributes:
        parts: what is printed, in order.
        status: the command's exit status.
        facts: what the command needs to go on, such as the id of a run that it waits for.
        errors: a line for each thing that was wrong; nothing was done. Only an API returns them:
            on a database they are raised.

    """

    parts: list[Part] = []
    status: int = 0
    facts: dict[str, Any] = {}
    errors: list[str] = []


def print_output(output: Output) -> None:
    """Print the parts of an output."""
    screen = Screen.current()
    for part in output.parts:
        _print(part, screen)


def _print(part: Part, screen: Screen) -> None:
    match part:
        case Table():
            print_table(part.headers, part.rows, nothing=part.nothing)
        case Facts():
            print_facts(part.facts)
        case Text():
            print_text(part.title, part.text)
        case Line():
            colour = _COLOURS.get(part.sign) if screen.has_colour else None
            text = visible(part.text)
            print(click.style(text, fg=colour) if colour else text)
        case Document():
            sys.stdout.write(part.text)
        case Record():
            print_json(part.value)
        case Warned():
            warn(part.text)
