"""The text of an error as lists show it: one line without secrets, the same for the same error.

Numbers, ids and addresses in memory differ from run to run, so errors are compared without them,
except for exit codes.
What tells errors apart often stands at the end, so a long text loses its middle.
"""

import re
from hashlib import sha256
from typing import NamedTuple

from warren.sql.listings.run_messages import BEFORE_CODES
from warren.sql.models.board_tables import ERROR_LIMIT

#: Characters of a key.
KEY_LENGTH = 12
_CUT = " … "
_HIDDEN = "***"
#: The paragraph that follows the first one is a stack trace or the end of a log.
_PARAGRAPH = re.compile(r"\n\s*\n")
_SPACE = re.compile(r"\s+")

_SECRETS = (
    # the password, or the whole user, of an address
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:\S*@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    # password=…, "api_key":"…", token: …
    (
        re.compile(
            r"((?:passw(?:or)?d|passphrase|pwd|secret|token|credentials?|signature|authorization|"
            r"api[_-]?key|access[_-]?key|private[_-]?key)[\w-]*(?:\\?[\"']\s*:|\s*:(?=[\s\"'])|[\"']?\s*=)\s*)"
            r"(?!\*\*\*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&)\]}]+)",
            re.IGNORECASE,
        ),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.?[\w-]*"), _HIDDEN),  # a JSON Web Token
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), _HIDDEN),
    (re.compile(r"\b(?:gh[pousr]_|xox[abpr]-|sk-|glpat-)[\w-]{10,}"), _HIDDEN),
)
_NO_CODE = "".join(f"(?<!{re.escape(before)})" for before in BEFORE_CODES)
_VARYING = re.compile(
    r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{12,}\b"
    rf"|(?<![0-9]){_NO_CODE}[0-9]+",
    re.IGNORECASE,
)


class ErrorText(NamedTuple):
    """The key of an error and its text, of ERROR_LIMIT characters at most."""

    key: str
    text: str


def error_of(message: str, status: str) -> ErrorText:
    """Return the error of a failed run; without a message, its status stands for it."""
    line = without_secrets(_SPACE.sub(" ", _PARAGRAPH.split(message.strip(), maxsplit=1)[0]))
    line = line.strip() or status
    alike = _VARYING.sub("#", line).lower()
    key = sha256(alike.encode(errors="replace")).hexdigest()[:KEY_LENGTH]
    return ErrorText(key, cut(line, ERROR_LIMIT))


def without_secrets(text: str) -> str:
    """Return a text in which what looks like a secret is hidden."""
    for pattern, by in _SECRETS:
        text = pattern.sub(by, text)
    return text


def cut(text: str, limit: int) -> str:
    """Return a text of at most so many characters, without its middle if it is longer."""
    if len(text) <= limit:
        return text
    head = (limit - len(_CUT)) // 2
    tail = limit - len(_CUT) - head
    return text[:head] + _CUT + text[-tail:]
