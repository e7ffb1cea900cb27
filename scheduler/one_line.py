"""What a text of one line may be: names, titles, remarks and reasons."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def is_line(text: str, longest: int) -> bool:
    """Whether a text has at most `longest` characters and no control character or end of line."""
    return len(text) <= longest and not _CONTROL.search(text)


def bare_line(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters, without control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())[:longest]
