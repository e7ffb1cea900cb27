"""Turns terminal colours in a log line into pieces of text with CSS classes.

Only foreground colours and styles like bold are kept; other escape sequences are removed, as
`shown` does. Each line begins without colours.
"""

import re
from collections.abc import Iterator

from warren.admin_web.logs.text import last_state, shown

#: CSS classes, separated by spaces, and the text that has them.
Piece = tuple[str, str]
_LOOKS = re.compile(r"\x1b\[([0-9;]{0,40})m")
_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_WEIGHTS = {1: "bold", 2: "dim", 3: "italic", 4: "under"}
#: The styles that a code ends.
_ENDS = {22: {"bold", "dim"}, 23: {"italic"}, 24: {"under"}}
#: `38;5;n` and `38;2;r;g;b` name a colour by the numbers that follow.
_EXTENDED, _INDEXED, _TRUE_COLOUR = frozenset({38, 48}), 5, 2


def pieces(line: str) -> list[Piece]:
    """Return a line in pieces; one without colours is one piece without classes."""
    if "\x1b" not in line:
        return [("", shown(line))]
    text, looks, at = last_state(line), _Looks(), 0
    found: list[Piece] = []
    for code in _LOOKS.finditer(text):
        found.append((str(looks), shown(text[at : code.start()])))
        looks.take(code[1])
        at = code.end()
    found.append((str(looks), shown(text[at:])))
    return [piece for piece in found if piece[1]] or [("", "")]


class _Looks:
    """The current colour and styles."""

    def __init__(self) -> None:
        self._colour = ""
        self._weights: set[str] = set()

    def take(self, codes: str) -> None:
        """Apply the codes of an escape sequence."""
        numbers = iter([int(code or 0) for code in codes.split(";")])
        for number in numbers:
            if number in _EXTENDED:
                self._take_extended(number, numbers)
            else:
                self._take_one(number)

    def _take_one(self, number: int) -> None:
        if number == 0:
            self._colour, self._weights = "", set()
        elif number in _WEIGHTS:
            self._weights.add(_WEIGHTS[number])
        elif number in _ENDS:
            self._weights -= _ENDS[number]
        elif number == 39:  # noqa: PLR2004 - the default colour
            self._colour = ""
        elif number in range(30, 38) or number in range(90, 98):
            self._colour = _NAMES[number % 10]

    def _take_extended(self, number: int, numbers: Iterator[int]) -> None:
        """Apply one of the sixteen named colours; ignore all others."""
        kind = next(numbers, 0)
        values = [next(numbers, 0) for _ in range({_INDEXED: 1, _TRUE_COLOUR: 3}.get(kind, 0))]
        is_foreground = number == 38  # noqa: PLR2004 - SGR's code
        if is_foreground and kind == _INDEXED and values[0] < 2 * len(_NAMES):
            self._colour = _NAMES[values[0] % len(_NAMES)]

    def __str__(self) -> str:
        names = [f"ansi-{name}" for name in (self._colour, *sorted(self._weights)) if name]
        return " ".join(names)
