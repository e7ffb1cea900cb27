"""Which executors the gateway accepts: their addresses and their apps' tokens. Pure: no I/O."""

import hmac
import re
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from typing import Self
from urllib.parse import urlsplit

from warren.broker.destinations import (
    AddressRefused,
    Destinations,
    carries_ipv4,
    is_name,
    is_never_called,
    literal,
)
from warren.broker.topology import check_address, check_app

#: XXL-JOB's default, which anybody would try first.
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


MAX_URL_LENGTH = 255
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """The URL that an executor registered, normalized."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def text(self) -> str:
        """The URL without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    @property
    def address(self) -> str:
        """Its address as an executor: host and port, plus a hash if the URL has more than that."""
        host = f"0{self.host}" if self.host.startswith(":") else self.host
        mark = ""
        if self.path or self.scheme != "http" or len(host) > _HOST_SHOWN:
            mark = f"-{sha256(self.text.encode()).hexdigest()[:12]}"
        return f"{host[:_HOST_SHOWN]}:{self.port}{mark}"


#: Characters of a host's name in an address, which is up to 128 long with port and hash.
_HOST_SHOWN = 100


class NotListed(AddressRefused):
    """Nothing is wrong with an address but that the list lacks it."""

    def __init__(self, remote: RemoteUrl, setting: str) -> None:
        super().__init__(
            f"{remote.host}:{remote.port} is not listed in {setting}; add it there and restart the "
            "gateway"
        )
        self.remote = remote


class AllowList(Destinations):
    """The addresses that executors may have.

    It is mandatory: without it, anyone who may register could make the gateway call whatever it can
    reach.
    """

    setting = "WARREN_GATEWAY_ALLOW"
    without_list = "nowhere"

    def check(self, url: str) -> RemoteUrl:
        """Return a URL that may be registered; a name's addresses are checked at each call.

        Raises:
            NotListed: it may be once it is listed.
            AddressRefused: with the reason.

        """
        remote = _parse(url)
        _check_address(remote)
        ip = literal(remote.host)
        if ip is None:
            is_listed = any(item.may_be(remote.host, remote.port) for item in self.items)
        else:
            is_listed = any(item.holds(remote.host, remote.port, ip) for item in self.items)
            if is_listed or is_never_called(ip) or carries_ipv4(ip):
                self.admit(remote.host, remote.port, remote.host)
        if not is_listed:
            raise NotListed(remote, self.setting)
        return remote

    def admit(self, host: str, port: int, address: str) -> None:
        """Refuse addresses that carry others too: an executor's has one spelling."""
        if carries_ipv4(ip_address(address)):
            raise AddressRefused(f"{address} carries another address, which no executor's does")
        super().admit(host, port, address)


def _parse(url: str) -> RemoteUrl:
    if len(url) > MAX_URL_LENGTH or re.search(r"[^!-~]|[\\?#@%]", url):
        raise _refused(url, "without user name, query and characters that need quoting")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused(url, "with a port from 1 to 65535") from None
    if parts.scheme not in _PORTS or port == 0 or not _is_host(parts.hostname or ""):
        raise _refused(url, "with the name or the plain IP address of a host")
    if "/." in parts.path or "//" in parts.path:
        raise _refused(url, "with a plain path")
    host = str(literal(parts.hostname or "") or parts.hostname)
    return RemoteUrl(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _check_address(remote: RemoteUrl) -> None:
    try:
        check_address(remote.address)
    except ValueError:
        raise AddressRefused(
            f"{remote.host} cannot name an executor: it has to begin with a letter or a digit"
        ) from None


def _is_host(host: str) -> bool:
    """Return whether it is a name, or an address that is not in an odd spelling."""
    ip = literal(host)
    return is_name(host) if ip is None else ":" in host or str(ip) == host


def _refused(url: str, kind: str) -> AddressRefused:
    return AddressRefused(
        f"expected registryValue to be an http(s) URL of up to {MAX_URL_LENGTH} characters {kind}, "
        f"got: {url[:MAX_URL_LENGTH]!r}"
    )
