"""Which executors the gateway deals with: their addresses and their apps' tokens. Pure: no I/O.

The list of networks is mandatory: without it, anyone who may register could make the gateway call
whatever it can reach. Addresses that no executor can have are refused even inside a listed network.
"""

import hmac
import re
import socket
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self
from urllib.parse import SplitResult, urlsplit

from warren.broker.topology import check_address, check_app
from warren.executor.gateway.protocol import AddressRefused

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
#: Labels of up to 63 characters: resolvers take no longer ones.
_NAME = re.compile(r"(?=.{1,253}\Z)(?!.*[^.]{64})[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_-]+)*")
_ITEM = re.compile(
    r"(?P<host>\[[^\]]+\](?:/\d+)?|[^\[\]:]+|[0-9A-Fa-f:]+(?:/\d+)?)(?::(?P<port>\d+))?"
)
#: Metadata services that are not link-local: AWS over IPv6, Alibaba, Oracle, Azure.
_METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
#: Lies in the network of compatible addresses, but carries none. `is_loopback` is true of mapped
#: addresses too, since Python 3.13.
_LOOPBACK = IPv6Address("::1")
#: IPv6 networks whose addresses carry an IPv4 address: NAT64 twice, 6to4, Teredo, compatible ones.
_CARRIERS = tuple(
    map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96"))
)

IpAddress = IPv4Address | IPv6Address


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


@dataclass(frozen=True, slots=True)
class _Item:
    """One item of the list: a network or a host's name, and the port if it names one."""

    place: IPv4Network | IPv6Network | str
    port: int | None

    def holds(self, host: str, port: int, ip: IpAddress) -> bool:
        if self.port not in (None, port):
            return False
        return self.place == host if isinstance(self.place, str) else ip in self.place


@dataclass(frozen=True, slots=True)
class AllowList:
    """The addresses that executors may have."""

    items: tuple[_Item, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a comma-separated list of networks, addresses and names, with or without ports.

        Raises:
            ValueError: an item is none of these, or the list is empty.

        """
        items = tuple(_item(part) for part in filter(None, map(str.strip, text.split(","))))
        if not items:
            raise ValueError("it lists none")
        return cls(items)

    def check(self, url: str) -> RemoteUrl:
        """Return a URL that may be registered; a name's addresses are checked at each call.

        Raises:
            AddressRefused: with the reason.

        """
        remote = _parse(url)
        _check_address(remote)
        ip = _literal(remote.host)
        if ip is not None:
            self.admit(remote, str(ip))
        elif not any(_may_hold_name(item, remote) for item in self.items):
            raise AddressRefused(f"{remote.host}:{remote.port} is not on the allow-list")
        return remote

    def admit(self, remote: RemoteUrl, address: str) -> None:
        """Check that a URL may be called at an IP address that its host resolves to.

        Raises:
            AddressRefused: it may not.

        """
        ip = ip_address(address)
        if _is_forbidden(ip):
            raise AddressRefused(f"{ip} is never an executor's address")
        if not any(item.holds(remote.host, remote.port, ip) for item in self.items):
            where = f"{remote.host} ({ip})" if remote.host != str(ip) else str(ip)
            raise AddressRefused(f"{where} with port {remote.port} is not on the allow-list")


def _may_hold_name(item: _Item, remote: RemoteUrl) -> bool:
    """Whether a host's name is listed, or may resolve into a listed network."""
    is_place = item.place == remote.host or not isinstance(item.place, str)
    return is_place and item.port in (None, remote.port)


def _item(text: str) -> _Item:
    match = _ITEM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is neither a network, an address nor a host's name")
    host, port = match["host"].replace("[", "").replace("]", ""), match["port"]
    if port is not None and not 1 <= int(port) <= _MAX_PORT:
        raise ValueError(f"{text[:100]!r} has no port from 1 to {_MAX_PORT}")
    try:
        place: IPv4Network | IPv6Network | str = ip_network(host)
    except ValueError:
        if not _is_name(host.lower()):
            raise ValueError(
                f"{text[:100]!r} is neither a network like 10.0.0.0/8 nor a host's name"
            ) from None
        place = host.lower()
    return _Item(place, None if port is None else int(port))


_MAX_PORT = 65_535


def _parse(url: str) -> RemoteUrl:
    if len(url) > MAX_URL_LENGTH or re.search(r"[^!-~]|[\\?#@%]", url):
        raise _refused(url, "without user name, query and characters that need quoting")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _refused(url, "with a port from 1 to 65535") from None
    if parts.scheme not in _PORTS or port == 0 or not _is_host(parts):
        raise _refused(url, "with the name or the plain IP address of a host")
    if "/." in parts.path or "//" in parts.path:
        raise _refused(url, "with a plain path")
    host = str(_literal(parts.hostname or "") or parts.hostname)
    return RemoteUrl(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _check_address(remote: RemoteUrl) -> None:
    try:
        check_address(remote.address)
    except ValueError:
        raise AddressRefused(
            f"{remote.host} cannot name an executor: it has to begin with a letter or a digit"
        ) from None


def _is_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return _literal(host) is not None or (":" not in host and _is_name(host))


def _is_name(host: str) -> bool:
    """Whether it is a name, not an address in one of the odd spellings that resolvers accept."""
    try:
        socket.inet_aton(host)  # 0x7f.1, 2130706433, 0177.0.0.1
    except (OSError, UnicodeEncodeError):
        last = host.rpartition(".")[2]
        return _NAME.fullmatch(host) is not None and not last.isdigit()
    return False


def _literal(host: str) -> IpAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_forbidden(ip: IpAddress) -> bool:
    if isinstance(ip, IPv6Address) and ip != _LOOPBACK and _carries_ipv4(ip):
        return True
    is_special = ip.is_link_local or ip.is_multicast or ip.is_unspecified
    return is_special or ip in _METADATA or ip == IPv4Address("255.255.255.255")


def _carries_ipv4(ip: IPv6Address) -> bool:
    return ip.ipv4_mapped is not None or any(ip in network for network in _CARRIERS)


def _refused(url: str, kind: str) -> AddressRefused:
    return AddressRefused(
        f"expected registryValue to be an http(s) URL of up to {MAX_URL_LENGTH} characters {kind}, "
        f"got: {url[:MAX_URL_LENGTH]!r}"
    )
