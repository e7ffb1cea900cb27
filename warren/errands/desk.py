"""Does errands on an open database, in the name of whoever sent them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints
from zoneinfo import ZoneInfo

import msgspec

from warren.errands.table import ERRANDS
from warren.errors import CommandError
from warren.scheduler.actor import Actor
from warren.scheduler.app_names import Resolver, nearest_name
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.membership.self_health import cluster_zone
from warren.scheduler.problems import lookup_problem
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.engine import Database
from warren.sql.errors import NotFound
from warren.terminal.output import (
    Document,
    Facts,
    Line,
    Output,
    Record,
    Table,
    Text,
    Warned,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where an errand is done: what it acts through, and where it puts its output.

    Attributes:
        context: the actor, the database and its clock, the zone of jobs that name none.
        zone: the zone of times as the sender reads and writes them.
        once: makes a request that may be repeated trigger its runs once.
        shows_secrets: whether webhooks are shown whole.
        max_lines: how many lines a list may have; None = any number.

    """

    context: CommandContext
    zone: ZoneInfo
    once: IdempotentRequest | None = None
    shows_secrets: bool = True
    max_lines: int | None = None
    output: Output = field(default_factory=Output)

    @property
    def database(self) -> Database:
        """The database."""
        return self.context.database

    @property
    def actor(self) -> Actor:
        """Who sent the errand."""
        return self.context.actor

    @property
    def commands(self) -> Commands:
        """The commands of the sender."""
        return Commands(self.context)

    @property
    def ids(self) -> Resolver:
        """The resolver of names that the sender may know."""
        return Resolver(self.database, self.actor.app_ids)

    def now_ms(self) -> int:
        """Return the database's clock in epoch milliseconds."""
        return self.context.now_ms()

    def zone_of_jobs(self) -> str:
        """Return the zone of jobs that name none."""
        return self.database.read(lambda session: cluster_zone(session, self.context.timezone))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
        """Add a table."""
        self.output.parts.append(Table(headers, rows, nothing))

    def facts(self, facts: Mapping[str, str]) -> None:
        """Add names and values."""
        self.output.parts.append(Facts(facts))

    def text(self, title: str, text: str) -> None:
        """Add a text with its title."""
        self.output.parts.append(Text(title, text))

    def line(self, text: str = "", sign: str = "") -> None:
        """Add a line."""
        self.output.parts.append(Line(text, sign))

    def document(self, text: str) -> None:
        """Add a text that is printed as it is."""
        self.output.parts.append(Document(text))

    def record(self, value: Mapping[str, Any]) -> None:
        """Add a JSON object."""
        self.output.parts.append(Record(value))

    def warn(self, text: str) -> None:
        """Add a warning."""
        self.output.parts.append(Warned(text))


def do(desk: Desk, name: str, options: Mapping[str, Any]) -> Output:
    """Do an errand and return its output.

    Raises:
        CommandError: its options are not what it takes, or a name is unknown and like another.
        Exception: whatever the errand raises.

    """
    function = _function(name)
    try:
        asked = msgspec.convert(options, _options(function))
    except msgspec.ValidationError as error:
        raise CommandError(f"{name}: {error}") from error
    try:
        function(desk, **{option: getattr(asked, option) for option in asked.__struct_fields__})
    except NotFound as error:
        if near := nearest_name(desk.database, error, desk.actor.app_ids):
            raise CommandError(f"{lookup_problem(error)}, did you mean {near!r}?") from error
        raise
    return desk.output


@cache
def _function(name: str) -> Callable[..., None]:
    module, _, function = ERRANDS[name].place.partition(":")
    doing = import_module(f"warren.errands.doing.{module}")
    errand: Callable[..., None] = getattr(doing, function)
    return errand


@cache
def _options(function: Callable[..., None]) -> Any:
    """Return the type of an errand's options: the parameters of its function after the desk."""
    hints = get_type_hints(function)
    fields: list[Any] = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        known = (name, hints[name])
        fields.append(
            known if parameter.default is parameter.empty else (*known, parameter.default)
        )
    return msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)
