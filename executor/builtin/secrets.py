"""Secrets that jobs without code name: `{secret:NAME}` in a param is filled in by the job process.

They are lines `NAME=value` of the file that `WARREN_JOB_SECRETS` names, read for each run. The
values appear in no param, row or log: they are masked.
"""

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, quote_plus

from warren.executor.handlers.context import JobFailed

MASK = "***"
_NAMED = re.compile(r"\{secret:([^{}]*)\}")
_LINE = re.compile(r"([A-Za-z0-9_.-]{1,100})=(.*)")


class Secrets:
    """Secrets by name. `were_used` says whether one has been filled in."""

    def __init__(self, by_name: dict[str, str], place: str) -> None:
        self._by_name = by_name
        self._place = place
        self.were_used = False
        forms = {form for value in by_name.values() if value for form in _forms(value)}
        # The longest first: one secret may be a part of another.
        words = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        self._secret = re.compile(words) if words else None

    @classmethod
    def read(cls, file: str) -> Self:
        """Read the file; without one there are none.

        Raises:
            JobFailed: it cannot be read, or has a line that is not a secret.

        """
        if not file:
            return cls({}, "")
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise JobFailed(f"cannot read WARREN_JOB_SECRETS: {why}", retry=False) from None
        by_name = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            match = _LINE.fullmatch(line.strip())
            if match is None:
                raise JobFailed(
                    f"expected line {number} of WARREN_JOB_SECRETS to be NAME=value", retry=False
                )
            by_name[match[1]] = match[2]
        return cls(by_name, file)

    def fill(self, value: Any) -> Any:
        """Return a value with the secrets in its texts filled in, in lists and dicts too.

        Raises:
            JobFailed: a name has no secret.

        """
        if isinstance(value, str):
            return _NAMED.sub(self._value, value)
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, dict):
            return {name: self.fill(item) for name, item in value.items()}
        return value

    def mask(self, text: str) -> str:
        """Return a text without the secrets that it repeats."""
        return self._secret.sub(MASK, text) if self._secret else text

    def _value(self, match: re.Match[str]) -> str:
        value = self._by_name.get(match[1])
        if value is None:
            where = "WARREN_JOB_SECRETS" if self._place else "WARREN_JOB_SECRETS, which is not set"
            raise JobFailed(f"there is no secret {match[1][:100]!r} in {where}", retry=False)
        self.were_used = True
        return value


def _forms(value: str) -> Iterator[str]:
    """Yield a secret as others may write it: quoted for a URL, JSON, HTML, Python."""
    data = value.encode()
    yield repr(data)[2:-1]
    for text in (
        value,
        data.decode("latin-1"),
    ):  # as many programs read headers
        yield from (text, quote(text), quote(text, safe=""), quote_plus(text), escape(text))
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        yield repr(text)[1:-1]
