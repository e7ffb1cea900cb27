"""The API's address, and the headers that each request to it has."""

import ssl
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from warren.client.exchange import Request

_PATH = "/api/v1"


@dataclass(frozen=True)
class ApiAddress:
    """The address of an API, and a token for it.

    Args:
        url: such as `https://warren.example.com`, with or without `/api/v1`.
        token: as printed by `warren tokens add`.

    Raises:
        ValueError: the URL is not http(s), or the token is malformed.

    """

    url: str
    token: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"expected url to be an http(s) URL, got: {self.url!r}")
        token = self.token.strip()
        if not token.isascii() or not token.isprintable():
            raise ValueError("expected token to be what `warren tokens add` printed")

    @property
    def host(self) -> str:
        """The host to connect to."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port to connect to."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def origin(self) -> str:
        """The URL without path, user and password, for messages."""
        return f"{urlsplit(self.url).scheme}://{self._netloc}"

    @property
    def _netloc(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @cached_property
    def tls(self) -> ssl.SSLContext | None:
        """How to encrypt; None if the URL is http."""
        return ssl.create_default_context() if self.url.startswith("https:") else None

    def target(self, request: Request) -> str:
        """Return the path of a request as it is sent."""
        base = urlsplit(self.url).path.rstrip("/").removesuffix(_PATH)
        return f"{base}{_PATH}{request.path}"

    def headers(self, request: Request) -> dict[str, str]:
        """Return the headers of a request, without its length."""
        return {
            "Host": self._netloc,
            "Authorization": f"Bearer {self.token.strip()}",
            "Accept": "application/json",
            "Content-Type": "application/json",
        } | dict(request.headers)
