"""Writes texts so that a job file is read back as the same texts; needs no YAML for that."""

import re
import unicodedata

#: The name in `${NAME}`, as a regular expression.
VALUE_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
_PLACE = re.compile(rf"\$\{{({VALUE_NAME})\}}")


def escape_places(text: str) -> str:
    """Return how a job file writes a text that has `${NAME}` in it."""
    return _PLACE.sub(r"$${\1}", text)


def escape_unseen(quoted: str) -> str:
    """Return JSON as YAML reads it: what is invisible or forbidden there is escaped."""
    return "".join(_escaped(c) if is_unseen(c) else c for c in quoted)


def is_unseen(character: str) -> bool:
    """Whether a character is invisible, forbidden in YAML, or a line break to YAML."""
    return character != " " and unicodedata.category(character)[0] in "CZ"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - four digits
