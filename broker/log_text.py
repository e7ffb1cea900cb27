"""How a log is shown: its lines as a terminal leaves them, and its end."""

import re

from warren.broker.messages import LOG_TAIL_BYTES

#: Escape sequences of terminals: `ESC [ … letter`, `ESC ] … BEL`, `ESC ( B` and the like.
_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^_`-~])"
)
#: Moves to the first column, as `\r` does.
_TO_START = re.compile(r"\x1b\[[01]?G")
#: Visible replacements for control characters, and for characters that change text direction.
_SIGNS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) != "\t"}
    | {0x7F: "\u2421"}
    | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
    | {
        code: f"\\u{code:04x}"
        for code in (0x200E, 0x200F, 0x061C, 0x2028, 0x2029, *range(0x202A, 0x202F))
    }
    | {code: f"\\u{code:04x}" for code in range(0x2066, 0x206A)}
    | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
)


def shown(line: str) -> str:
    """Return a line without escape sequences, with visible control characters."""
    return without_codes(last_state(line)).translate(_SIGNS)


def shown_text(text: str) -> str:
    """Return several lines, each as `shown` returns it."""
    return "\n".join(shown(line) for line in text.split("\n"))


def shown_end(tail: str, length: int) -> str:
    """Return the last whole lines of a log's end, as `shown` returns them, within a length.

    A last line that is longer alone is cut.
    """
    text = shown_text(whole_lines(tail).rstrip())
    if len(text) <= length:
        return text
    kept = text[-length:]
    return kept.partition("\n")[2] or kept


def whole_lines(tail: str) -> str:
    """Return the end of a log without an incomplete first line."""
    is_cut = len(tail.encode(errors="replace")) >= LOG_TAIL_BYTES
    return (tail.partition("\n")[2] if is_cut else "") or tail


def without_codes(line: str) -> str:
    """Return a line without escape sequences."""
    return _TERMINAL.sub("", line) if "\x1b" in line else line


def last_state(line: str) -> str:
    """Return the last state of a line that overwrites itself, as progress bars do."""
    if "\x1b" in line:
        line = _TO_START.sub("\r", line)
    if "\r" not in line:
        return line
    states = line.split("\r")
    # What comes last may only set a colour, or nothing.
    return next((state for state in reversed(states) if without_codes(state)), states[-1])
