"""The kinds of a job's fields: which values each allows, how it is stored and how it is shown."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.expectations import Expectations
from warren.scheduler.flows.graph import Graph, stored_graph
from warren.scheduler.problems import Refused, counted
from warren.scheduler.schedules.options import ScheduleOptions

#: Characters shown of a changed value, and how many of them before the first difference.
SHOWN_LENGTH, BEFORE_DIFFERENCE = 60, 15
#: The changed nodes of a flow that are named.
SHOWN_NODES = 10


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, and the base of all kinds; NULL in a row is the empty text.

    Attributes:
        group: the mapping of the job file that holds the field; empty = the top level.
        column: the attribute of the row, if its name differs from the field's.
        custom: storing the field takes more than writing its column: a script has versions, and
            an enabled job has a next tick.
        is_secret: the audit log notes only whether the field is set.

    """

    _: KW_ONLY
    group: str = ""
    column: str = ""
    custom: bool = False
    is_secret: bool = False

    def stored(self, value: Any) -> Any:
        return value

    def value(self, stored: Any) -> Any:
        return stored or ""

    def shown(self, value: Any) -> str:
        """Return a value as people read it; empty = do not show it."""
        return str(value)

    def change(self, before: Any, after: Any) -> tuple[str, str]:
        """Return two different values as an edit summary shows them."""
        return _quoted(before, after)


@dataclass(frozen=True, slots=True)
class Line(Text):
    """One line of text without spaces at its ends, of up to `longest` characters."""

    longest: int


class TimeZone(Text):
    """The IANA name of a time zone; empty, NULL in a row, is the scheduler's zone."""

    __slots__ = ()

    def stored(self, value: str) -> str | None:
        """Return the name, or NULL for no zone."""
        return value or None


class Webhook(Text):
    """A URL that anybody who knows it can post to."""

    __slots__ = ()

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both without the secret part."""
        return _shown_webhook(before), _shown_webhook(after)


@dataclass(frozen=True, slots=True)
class Secret(Text):
    """A text that can be set but not read; empty = leave it as it is."""

    def stored(self, value: str) -> str | None:
        """Return the text, or NULL for none."""
        return value or None

    def value(self, _stored: str | None) -> str:
        return ""

    def change(self, _before: str, after: str) -> tuple[str, str]:
        """Describe that it was replaced or removed."""
        return "***", "***" if after else "none"


class Texts(Text):
    """Several texts, separated by commas in a row."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str:
        """Return the texts joined by commas."""
        return ",".join(value)

    def value(self, stored: str | None) -> tuple[str, ...]:
        return tuple(text for text in (stored or "").split(",") if text)

    def shown(self, value: Sequence[str]) -> str:
        """Return the texts as a list for people."""
        return ", ".join(value)

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Return both in their stored form."""
        return _quoted(self.stored(before), self.stored(after))


class LimitNames(Texts):
    """Limits that runs take, each as NAME or NAME:WEIGHT."""

    __slots__ = ()

    def stored(self, value: Sequence[str]) -> str | None:  # type: ignore[override] # NULL: no limit
        """Return the texts joined by commas, or NULL for none."""
        return ",".join(value) or None

    def change(self, before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
        """Return both as lists, without quotes."""
        return ", ".join(before) or "none", ", ".join(after) or "none"


@dataclass(frozen=True, slots=True)
class Tags(Texts):
    """Up to `most` short words, each once, of up to `longest` characters with their commas."""

    most: int
    longest: int


@dataclass(frozen=True, slots=True)
class Choice(Text):
    """One of the `known` names."""

    known: tuple[str, ...]

    def change(self, before: str, after: str) -> tuple[str, str]:
        """Return both as they are, without quotes; one that was not chosen is the default."""
        return before or "default", after or "default"


@dataclass(frozen=True, slots=True)
class Number(Text):
    """A whole number from `least` to `most`; with a `unit`, 0 means none."""

    least: int
    most: int
    unit: str = ""

    def value(self, stored: int) -> int:
        return stored

    def shown(self, value: int) -> str:
        if not self.unit:
            return str(value)
        return f"{value} {self.unit}" if value else "none"

    def change(self, before: int, after: int) -> tuple[str, str]:
        """Return both in digits."""
        return str(before), str(after)


class Share(Text):
    """A share from 0 to 1 with up to two decimals; stored in percent."""

    __slots__ = ()

    def stored(self, value: float) -> int:
        """Return the share in percent."""
        return round(value * 100)

    def value(self, stored: int) -> float:
        return stored / 100

    def shown(self, value: float) -> str:
        """Return the share as a number; empty for none."""
        return f"{value:g}" if value else ""

    def change(self, before: float, after: float) -> tuple[str, str]:
        """Return both as numbers."""
        return f"{before:g}", f"{after:g}"


class Expected(Text):
    """What is expected of the job: stored as JSON with the rules that are set, or NULL."""

    __slots__ = ()

    def stored(self, value: Expectations) -> str | None:
        """Return the JSON, or NULL for nothing."""
        return value.to_json()

    def value(self, stored: str | None) -> Expectations:
        return Expectations.from_json(stored)

    def change(self, before: Expectations, after: Expectations) -> tuple[str, str]:
        """Return both as one line, without quotes."""
        return str(before) or "nothing", str(after) or "nothing"


class Flow(Text):
    """The graph of a flow, None for another job: stored as JSON, or NULL."""

    __slots__ = ()

    def stored(self, value: Graph | None) -> str | None:
        """Return the canonical JSON, or NULL for none."""
        return None if value is None else value.to_json()

    def value(self, stored: str | None) -> Graph | None:
        """Return the graph of a row; without nodes if it is corrupt in the database."""
        if stored is None:
            return None
        try:
            return stored_graph(stored)
        except Refused:
            return Graph({})

    def shown(self, value: Graph | None) -> str:
        """Return the graph as JSON."""
        return self.stored(value) or ""

    def change(self, before: Graph | None, after: Graph | None) -> tuple[str, str]:
        """Return which nodes change."""
        old, new = (graph.nodes if graph else {} for graph in (before, after))
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        more = ["…"] if len(changed) > SHOWN_NODES else []
        nodes = ", ".join([*changed[:SHOWN_NODES], *more])
        told = counted(len(new), "node")
        return counted(len(old), "node"), f"{told} (changed: {nodes or 'their order'})"


class Options(Text):
    """The options of a schedule: stored as JSON with those that are set, or NULL."""

    __slots__ = ()

    def stored(self, value: ScheduleOptions) -> str | None:
        """Return the JSON, or NULL for none."""
        return value.to_json()

    def value(self, stored: str | None) -> ScheduleOptions:
        return ScheduleOptions.from_json(stored)

    def shown(self, value: ScheduleOptions) -> str:
        """Return the options, and the rule if it is not the first."""
        rule = f"rule {value.rule}" if value.rule > 1 else ""
        return ", ".join(filter(None, (str(value), rule)))

    def change(self, before: ScheduleOptions, after: ScheduleOptions) -> tuple[str, str]:
        """Return both as one line, without quotes."""
        return str(before) or "none", str(after) or "none"


def _quoted(before: str, after: str) -> tuple[str, str]:
    """Return two texts in quotes; of long ones, only the part around the first difference."""
    if max(len(before), len(after)) <= SHOWN_LENGTH:
        return repr(before), repr(after)
    both = list(zip(before, after, strict=False))
    alike = next((at for at, (number, other) in enumerate(both) if number != other), len(both))
    start = max(0, alike - BEFORE_DIFFERENCE)
    return _cut(before, start), _cut(after, start)


def _cut(text: str, start: int) -> str:
    end = start + SHOWN_LENGTH
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if len(text) > end else ''}"


def _shown_webhook(url: str) -> str:
    """Return the part of a webhook's URL that is not secret."""
    return without_secret(url) if url else "none"
