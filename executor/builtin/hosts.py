"""Which hosts `warren.http` may call. Pure.

What counts is the address that is connected to, whatever a name resolved to before. Addresses that
are not public, such as loopback, private and link-local ones, must be named: so a job cannot reach
what only this host can reach.
"""

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

IpAddress = IPv4Address | IPv6Address

#: IPv6 networks whose addresses carry an IPv4 address in their last four bytes: NAT64 twice, and
#: compatible ones. Others carry it elsewhere: mapped ones, 6to4 and Teredo.
_CARRIERS = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
#: Metadata services of clouds at addresses that look public.
_METADATA = frozenset(map(ip_address, ("168.63.129.16",)))
_NAME = re.compile(r"(\*\.)?(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_-]+)*")


class HostRefused(Exception):
    """A host may not be called; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """The hosts and networks that are listed; empty = every public address, and no other.

    `suffixes` are of entries like `*.example.com`. They allow public addresses only.
    """

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    networks: tuple[object, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse names, `*.` and a name, addresses and networks, separated by commas.

        Raises:
            ValueError: an entry is none of these.

        """
        names, suffixes, networks = set(), [], []
        for item in filter(None, map(str.strip, text.lower().split(","))):
            try:
                networks.append(ip_network(item))
                continue
            except ValueError:
                if not _NAME.fullmatch(item) or _is_number(item):
                    raise ValueError(
                        f"{item[:100]!r} is neither a host's name, like api.example.com or "
                        "*.example.com, nor an address or network like 10.0.0.0/8"
                    ) from None
            if item.startswith("*"):
                suffixes.append(item[1:])
            else:
                names.add(item)
        return cls(names=frozenset(names), suffixes=tuple(suffixes), networks=tuple(networks))

    def check(self, host: str, address: str) -> None:
        """Check that a host may be called at an address that its name resolves to.

        Raises:
            HostRefused: it may not.

        """
        ip = _unmapped(ip_address(address.partition("%")[0]))
        name = host.lower().rstrip(".")
        meant = [ip, *_carried(ip)]
        if name in self.names or all(self._is_listed(each) for each in meant):
            return
        where = address if name == address else f"{host[:100]} ({address})"
        if not all(map(_is_public, meant)):
            raise HostRefused(f"{where} is not public, and not named in WARREN_HTTP_HOSTS")
        lists_any = self.names or self.suffixes or self.networks
        if lists_any and not name.endswith(self.suffixes or ("\0",)):
            raise HostRefused(f"{where} is not among WARREN_HTTP_HOSTS")

    def _is_listed(self, ip: IpAddress) -> bool:
        return any(ip in network for network in self.networks)  # type: ignore[operator] # networks


def _unmapped(ip: IpAddress) -> IpAddress:
    return ip if isinstance(ip, IPv4Address) else ip.ipv4_mapped or ip


def _carried(ip: IpAddress) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address carries."""
    if isinstance(ip, IPv4Address):
        return
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo
    if any(ip in carrier for carrier in _CARRIERS) and not ip.is_loopback:
        yield IPv4Address(ip.packed[-4:])


def _is_public(ip: IpAddress) -> bool:
    return ip.is_global and not ip.is_multicast and not ip.is_reserved and ip not in _METADATA


def _is_number(item: str) -> bool:
    """Whether resolvers take it for an address: 0x7f.1, 2130706433, 0177.0.0.1."""
    try:
        socket.inet_aton(item)
    except OSError:
        return item.rpartition(".")[2].isdigit()
    return True
