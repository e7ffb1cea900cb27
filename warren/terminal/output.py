"""What commands print: tables, facts, lines and colours; and times as users write and read them."""

import json
import shutil
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import click
import msgspec

from warren.broker.durations import DURATION, seconds_of
from warren.resources.instant import to_builtins
from warren.settings.settings import colour_is_unwanted
from warren.sql.instants import moment

#: Up to this width, a single cell may widen its whole column.
_WIDE = 40
_GAP = "  "
#: Units of durations: name, seconds, and up to how many seconds the unit is used.
_UNITS = (("s", 1, 120), ("min", 60, 120 * 60), ("h", 3600, 48 * 3600), ("d", 86_400, None))
#: Control characters that JSON does not have to escape.
_ESCAPED = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
_COLOURS = {
    "SUCCEEDED": "green",
    "online": "green",
    "enabled": "green",
    "RUNNING": "cyan",
    "SENT": "cyan",
    "ROUTED": "cyan",
    "PLANNED": "blue",
    "CANCELLED": "bright_black",
    "WAITING": "bright_black",
    "BYPASSED": "bright_black",
    "KEPT": "green",
    "SKIPPED": "bright_black",
    "stopped": "bright_black",
    "on demand": "bright_black",
    "draining": "yellow",
    "UNDELIVERED": "yellow",
    "FAILED": "red",
    "TIMED_OUT": "red",
    "KILLED": "red",
    "REFUSED": "red",
    "LOST": "red",
    "offline": "red",
}
#: The colours of the signs that a line may begin with.
_SIGN_COLOURS = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class Screen:
    """Standard output: its width in columns, None = unlimited, and whether it has colours."""

    width: int | None
    has_colour: bool

    @classmethod
    def current(cls) -> "Screen":
        """Return the current state of standard output."""
        if not sys.stdout.isatty():
            return cls(width=None, has_colour=False)
        width = shutil.get_terminal_size().columns
        return cls(width=width, has_colour=not colour_is_unwanted())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, nothing: str) -> None:
    """Print rows under headers, aligned; on a terminal the last column is cut to fit.

    Without rows, print `nothing` on standard error.
    """
    if not rows:
        print(nothing, file=sys.stderr)
        return
    for line in table(headers, rows, Screen.current()):
        print(line)


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line, with every control character escaped."""
    print(json.dumps(value, ensure_ascii=False).translate(_ESCAPED))


def print_struct(value: msgspec.Struct) -> None:
    """Print a resource as one JSON object."""
    print_json(to_builtins(value))


def print_line(text: str = "", sign: str = "") -> None:
    """Print a line; `sign` decides its colour."""
    colour = _SIGN_COLOURS.get(sign) if Screen.current().has_colour else None
    shown = visible(text)
    print(click.style(shown, fg=colour) if colour else shown)


def print_text(title: str, text: str) -> None:
    """Print a text of several lines below an empty line and its title."""
    print(f"\n{title}:\n{visible_lines(text)}")


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and values, one line each; empty values are left out."""
    width = max(map(len, facts), default=0)
    screen = Screen.current()
    for name, value in facts.items():
        if value:
            print(f"{name:{width}}  {coloured(value, visible(value), screen)}")


def warn(words: str) -> None:
    """Print a warning on standard error."""
    print(f"warning: {visible(words)}", file=sys.stderr)


def show_progress(count: int) -> None:
    """Show on a terminal how much of something long is done."""
    if sys.stderr.isatty():
        print(f"\r{count:,} …", end="", file=sys.stderr, flush=True)


def end_progress() -> None:
    """Remove what `show_progress` has shown."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen) -> list[str]:
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [_fitting(list(map(_columns, column))) for column in zip(headers, *cells, strict=True)]
    head = _line([_heading(header) for header in headers], widths, Screen(screen.width, False))
    return [head, *(_line(row, widths, screen) for row in cells)]


def relative(instant_ms: int | None, now_ms: int) -> str:
    """Return a time relative to now: `in 12 s`, `3 min ago`; empty if there is none."""
    if not instant_ms:
        return ""
    seconds = (instant_ms - now_ms) / 1000
    span = duration(abs(seconds))
    return f"in {span}" if seconds > 0 else f"{span} ago"


def duration(seconds: float) -> str:
    """Return a duration in a single suitable unit."""
    for unit, size, limit in _UNITS:
        if limit is None or seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    raise AssertionError("the last unit has no limit")


def visible(text: str) -> str:
    """Return a text on one line, without control characters."""
    return "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text).rstrip()


def visible_lines(text: str) -> str:
    """Return a text of several lines, without control characters in them."""
    return "\n".join(visible(line.expandtabs()) for line in text.split("\n")).rstrip()


def _fitting(widths: Sequence[int]) -> int:
    """Return the width of a column: that of all cells but a few that are far longer.

    A cell that is longer shifts the rest of its own line to the right, and no other line.
    """
    longest, usual = max(widths), sorted(widths)[(len(widths) - 1) * 9 // 10]
    return usual if longest > max(2 * usual, _WIDE) else longest


def _heading(header: str) -> str:
    """Return a header in capitals, unless it already has some."""
    return header.upper() if header.islower() else header


def _line(cells: Sequence[str], widths: Sequence[int], screen: Screen) -> str:
    used = len(_GAP) * (len(widths) - 1)
    used += sum(max(width, _columns(cell)) for width, cell in zip(widths[:-1], cells, strict=False))
    last = cells[-1] if screen.width is None else _cut(cells[-1], max(screen.width - used, 8))
    shown = [
        coloured(cell, cell + " " * (width - _columns(cell)), screen)
        for cell, width in zip(cells[:-1], widths, strict=False)
    ]
    return _GAP.join([*shown, coloured(last, last, screen)]).rstrip()


def coloured(word: str, shown: str, screen: Screen) -> str:
    """Return a text in the colour of a word."""
    colour = _COLOURS.get(word) if screen.has_colour else None
    return click.style(shown, fg=colour) if colour else shown


def _cut(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    kept, used = "", 1
    for character in text:
        used += _width(character)
        if used > width:
            break
        kept += character
    return kept + "…"


def _columns(text: str) -> int:
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def read_instant(text: str, *, now_ms: int, zone: ZoneInfo) -> int:
    """Return an ISO 8601 time as epoch milliseconds; `10m` means 10 minutes before now.

    A time without an offset is in `zone`. Units are s, m, h, d and w.

    Raises:
        UsageError: it is neither.

    """
    ago = seconds_of(text, needs_unit=True)
    if ago is not None:
        return max(now_ms - int(ago * 1_000), 0)
    try:
        return _iso_instant(text, zone)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"expected a time like 2026-12-01T08:00:00+08:00 or 10m, got: {text[:100]!r}"
        ) from error


def read_moment(text: str, option: str, *, zone: ZoneInfo) -> int:
    """Return an option's ISO 8601 time as epoch milliseconds; without an offset, it is in `zone`.

    Raises:
        UsageError: it is not a time.

    """
    try:
        return _iso_instant(text, zone)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(
            f"expected {option} to be a time like 2026-12-01T08:00, got: {text[:100]!r}"
        ) from error


def read_span(text: str) -> int:
    """Return a duration like `2h` in milliseconds; units are s, m, h, d and w.

    Raises:
        UsageError: it is not a duration, or 0.

    """
    seconds = seconds_of(text, needs_unit=True)
    if not seconds:
        raise click.UsageError(f"expected --for to be {DURATION}, got: {text[:100]!r}")
    return int(seconds * 1_000)


def _iso_instant(text: str, zone: ZoneInfo) -> int:
    instant = datetime.fromisoformat(text.strip())
    aware = instant if instant.tzinfo else instant.replace(tzinfo=zone)
    return max(int(aware.timestamp() * 1000), 0)


def local(instant_ms: int | None, zone: ZoneInfo) -> str:
    """Return a time in a zone, with the zone's abbreviation; empty if there is none."""
    if not instant_ms:
        return ""
    shown = moment(instant_ms, zone)
    return shown.strftime("%Y-%m-%d %H:%M:%S ") + (shown.tzname() or "")


def shown_time(at: datetime | None, zone: ZoneInfo) -> str:
    """Return a point in time as `local` does."""
    return local(milliseconds(at), zone)


def shown_ago(at: datetime | None, now_ms: int) -> str:
    """Return a point in time as `relative` does."""
    return relative(milliseconds(at), now_ms)


def milliseconds(at: datetime | None) -> int:
    """Return a point in time as epoch milliseconds; 0 if there is none."""
    return 0 if at is None else round(at.timestamp() * 1_000)
