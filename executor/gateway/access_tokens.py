"""Which token speaks for which app, and the keys of these apps."""

import hmac
import re
from dataclasses import dataclass, field
from typing import Self

from warren.broker.topology import check_app

#: XXL-JOB's default, so what anybody would try first.
DEFAULT_TOKEN = "default_token"  # noqa: S105 - it is refused
TOKEN_LENGTH = 16
_KEY = re.compile(r"[!-~]{32,}")
_COMMENT = re.compile(r"(?:^|\s)#")


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """The apps by name, each with its token and, if listed, its key."""

    by_app: dict[str, str] = field(repr=False)
    keys: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read lines of `app: token` or `app: token key`; ` #` begins a comment.

        Raises:
            ValueError: naming the invalid line, never its content.

        """
        tokens: dict[str, str] = {}
        keys: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not (words := _COMMENT.split(line, maxsplit=1)[0].split()):
                continue
            try:
                app, token, key = _read(words)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
            if app in tokens:
                raise ValueError(f"line {number}: app {app} is there twice")
            tokens[app] = token
            if key:
                keys[app] = key
        if not tokens:
            raise ValueError("it lists no app")
        return cls(tokens, keys)

    def apps_of(self, token: str) -> frozenset[str]:
        """Return the apps that a token speaks for; every token is compared, in constant time."""
        given = token.encode(errors="replace")
        return frozenset(
            app for app, known in self.by_app.items() if hmac.compare_digest(known.encode(), given)
        )


def _read(words: list[str]) -> tuple[str, str, str]:
    if len(words) not in (2, 3) or not words[0].endswith(":"):
        raise ValueError("expected `app: token` or `app: token key`")
    app, token, key = check_app(words[0][:-1]), words[1], "".join(words[2:])
    if token == DEFAULT_TOKEN:
        raise ValueError(f"the token of app {app} is the one that everybody knows")
    if len(token) < TOKEN_LENGTH or not token.isascii():
        raise ValueError(
            f"expected the token of app {app} to be {TOKEN_LENGTH} ASCII characters at least"
        )
    if key and not _KEY.fullmatch(key):
        raise ValueError(f"expected the key of app {app} to be what `warren secrets app` prints")
    return app, token, key
