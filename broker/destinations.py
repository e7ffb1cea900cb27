"""Where Warren may call on others' behalf: webhooks, `warren.http`, executors of the gateway. Pure.

The address of the connection decides, whatever a name resolved to before. Some addresses are never
called, whatever is listed: above all the metadata services of clouds.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import ClassVar, Literal, Self

IpAddress = IPv4Address | IPv6Address

_MAX_PORT = 65_535
#: Labels of up to 63 characters: resolvers take no longer ones.
_NAME = re.compile(
    r"(?=.{1,253}\Z)(?!.*[^.]{64})[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_-]+)*",
    re.IGNORECASE | re.ASCII,
)
_ITEM = re.compile(r"(\[[^\]]+\](?:/\d+)?|[^\[\]:]+|[0-9a-f:]+(?:/\d+)?)(?::(\d{1,6}))?", re.ASCII)
#: Metadata services that are not link-local: AWS over IPv6, Alibaba, Oracle, Azure.
_METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
_BROADCAST = IPv4Address("255.255.255.255")
#: IPv6 networks whose addresses carry an IPv4 address in their last four bytes: NAT64, and
#: compatible ones. Others carry it elsewhere: mapped ones, 6to4 and Teredo.
_CARRIERS = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
#: Lies in the network of compatible addresses, but carries none. `is_loopback` is true of mapped
#: addresses too, since Python 3.13.
_LOOPBACK = IPv6Address("::1")
#: NAT64 with a prefix of one's own: where its addresses carry theirs depends on that prefix.
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")


class AddressRefused(OSError):
    """An address may not be called; the text says why."""


def literal(host: str) -> IpAddress | None:
    """Return the address that a host spells, as resolvers read it (0x7f.1); None = it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeEncodeError):
        return None


def is_name(host: str) -> bool:
    """Return whether it is a host's name, and no resolver takes it for an address."""
    is_number = literal(host) is not None or host.rpartition(".")[2].isdigit()
    return _NAME.fullmatch(host) is not None and not is_number


def is_never_called(ip: IpAddress) -> bool:
    """Return whether an address is never called, by itself or by an address that it embeds."""
    return any(map(_is_hostile, _meant(ip)))


@dataclass(frozen=True, slots=True)
class _Item:
    """One item of a list, and the port if it names one; `.x.org` is every name below x.org."""

    place: IPv4Network | IPv6Network | str
    port: int | None

    def may_be(self, name: str, port: int) -> bool:
        """Return whether it may hold a name, depending on where that leads."""
        place = self.place
        is_it = not isinstance(place, str) or (
            name.endswith(place) if place.startswith(".") else name == place
        )
        return is_it and self.port in (None, port)

    def holds(self, name: str, port: int, ip: IpAddress) -> bool:
        if not self.may_be(name, port):
            return False
        if isinstance(self.place, str):
            return not self.place.startswith(".") or _is_public(ip)
        return ip in self.place


@dataclass(frozen=True, slots=True)
class Destinations:
    """The hosts and networks that an operator lists, and where calls may go if none are."""

    items: tuple[_Item, ...] = ()

    #: What the setting with the list is called.
    setting: ClassVar[str]
    without_list: ClassVar[Literal["everywhere", "public addresses", "nowhere"]] = "everywhere"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read networks, addresses, names and `*.` names, separated by commas, maybe with ports.

        Raises:
            ValueError: an item is none of these.

        """
        items = filter(None, map(str.strip, text.lower().split(",")))
        return cls(tuple(map(_item, items)))

    def admit(self, host: str, port: int, address: str) -> None:
        """Check that a host may be called at an address that its name resolves to.

        Raises:
            AddressRefused: it may not.

        """
        meant, name = _meant(ip_address(address.partition("%")[0])), host.lower().rstrip(".")
        where = address if name == address else f"{host[:100]} ({address})"
        if any(map(_is_hostile, meant)):
            raise AddressRefused(f"{where} is never called, whatever is listed")
        if all(any(item.holds(name, port, ip) for item in self.items) for ip in meant):
            return
        if self.without_list == "public addresses" and not all(map(_is_public, meant)):
            raise AddressRefused(f"{where} is not public, and not named in {self.setting}")
        if self.items or self.without_list == "nowhere":
            raise AddressRefused(f"{where} with port {port} is not listed in {self.setting}")


def _item(text: str) -> _Item:
    match = _ITEM.fullmatch(text)
    host, digits = match.groups() if match else (text, None)
    port = None if digits is None else int(digits)
    if port is not None and not 1 <= port <= _MAX_PORT:
        raise ValueError(f"{text[:100]!r} has no port from 1 to {_MAX_PORT}")
    try:
        return _Item(ip_network(re.sub(r"[\[\]]", "", host)), port)
    except ValueError:
        if not is_name(host.removeprefix("*.")):
            raise ValueError(
                f"{text[:100]!r} is neither a network like 10.0.0.0/8 nor a host's name, like "
                "api.example.com or *.example.com"
            ) from None
    return _Item(host.removeprefix("*"), port)


def _meant(ip: IpAddress) -> list[IpAddress]:
    """Return an address and those embedded in it; for a mapped one, only the embedded one."""
    if isinstance(ip, IPv4Address):
        return [ip]
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    carried = [ip.sixtofour, *(ip.teredo or ())]
    if ip != _LOOPBACK and any(ip in carrier for carrier in _CARRIERS):
        carried.append(IPv4Address(ip.packed[-4:]))
    return [ip, *filter(None, carried)]


def carries_ipv4(ip: IpAddress) -> bool:
    """Return whether it is an IPv6 address that stands for an IPv4 address."""
    return _meant(ip) != [ip]


def _is_hostile(ip: IpAddress) -> bool:
    is_special = ip.is_link_local or ip.is_multicast or ip.is_unspecified
    return is_special or ip in _METADATA or ip == _BROADCAST or ip in _LOCAL_NAT64


def _is_public(ip: IpAddress) -> bool:
    return ip.is_global and not ip.is_reserved
