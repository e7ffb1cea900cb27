"""Makes log lines safe to show: whatever a job printed is only text."""

import re

from warren.broker.messages.values import LOG_TAIL_BYTES

#: Escape sequences of terminals: `ESC [ … letter`, `ESC ] … BEL`.
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
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
    plain = _TERMINAL.sub("", line) if "\x1b" in line else line
    return last_state(plain).translate(_SIGNS)


def shown_text(text: str) -> str:
    """Return several lines, each as `shown` returns it."""
    return "\n".join(shown(line) for line in text.split("\n"))


def whole_lines(tail: str) -> str:
    """Return the end of a log without an incomplete first line."""
    is_cut = len(tail.encode(errors="replace")) >= LOG_TAIL_BYTES
    return (tail.partition("\n")[2] if is_cut else "") or tail


def last_state(line: str) -> str:
    """Return the final text of a line that overwrites itself, as progress bars do."""
    text = line.rstrip("\r")
    return text.rpartition("\r")[2] + line[len(text) :]
