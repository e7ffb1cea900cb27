"""Which URLs a webhook may have, and which addresses it may reach.

A job's author must not use Warren to reach what only this machine can reach, above all the metadata
services of clouds, which have link-local addresses. An operator may list the hosts and networks
that are allowed; without a list, the rules here decide alone.
"""

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self
from urllib.parse import urlsplit

from warren.scheduler.problems import Code, Problem

MAX_LENGTH = 512
MAX_SECRET_LENGTH = 255

#: Metadata services besides 169.254.169.254: AWS by IPv6, Alibaba, Oracle, Azure.
_METADATA = {
    ip_address(text)
    for text in ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
}
#: IPv6 addresses whose last four bytes are an IPv4 address: NAT64, and the old compatible ones.
_CARRIERS = (ip_network("64:ff9b::/96"), ip_network("::/96"))

#: NAT64 with a prefix of one's own: where in it the IPv4 address is depends on the prefix's length.
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")


def check_webhook(url: str, field: str = "alarm/webhook") -> None:
    """Raise Problem unless a URL can be a webhook's; judges the URL only.

    A host name is resolved, and its addresses checked, only when an alarm is sent.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = None
    if not good or len(url) > MAX_LENGTH or re.search(r"[^!-~]", url):
        raise Problem(Code.WEBHOOK, field, got=url[:100])
    if parts.username or parts.password:
        raise Problem(Code.WEBHOOK_USER, field)
    address = literal(parts.hostname or "")
    if address is not None and not may_be_reached(str(address)):
        raise Problem(Code.WEBHOOK_LINK_LOCAL, field, got=url[:100])


def without_secret(url: str) -> str:
    """Return a webhook's URL without what may be secret: scheme and host only."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}/…"


def may_be_reached(address: str) -> bool:
    """Return whether an IP address is allowed; private and loopback ones are."""
    ip = ip_address(address.partition("%")[0])
    return not any(_is_forbidden(address) for address in (ip, *_carried(ip)))


def literal(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a host spells, in any notation; None if it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))  # 0xa9fea9fe, 2852039166, 0251.0376.43518
    except (OSError, UnicodeEncodeError):
        return None


def _carried(ip: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(ip, IPv4Address):
        return []
    addresses = [ip.ipv4_mapped, ip.sixtofour, ip.teredo[1] if ip.teredo else None]
    if any(ip in carrier for carrier in _CARRIERS):
        addresses.append(IPv4Address(ip.packed[-4:]))
    return [address for address in addresses if address is not None]


def _is_forbidden(ip: IPv4Address | IPv6Address) -> bool:
    return ip.is_link_local or ip.is_multicast or ip in _METADATA or ip in _LOCAL_NAT64


_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class WebhookAllowList:
    """Allows webhooks to these hosts and networks; to anywhere if both are empty."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse networks, addresses and host names, separated by commas.

        Raises:
            ValueError: an entry is none of these.

        """
        hosts, networks = set(), []
        for item in filter(None, map(str.strip, text.split(","))):
            try:
                networks.append(ip_network(item))
            except ValueError:
                if not _HOST.fullmatch(item) or literal(item) is not None:
                    raise ValueError(
                        f"{item[:100]!r} is neither a network like 10.0.0.0/8 nor a host's name"
                    ) from None
                hosts.add(item.lower())
        return cls(frozenset(hosts), tuple(networks))

    def allows(self, host: str, address: str) -> bool:
        """Return whether a URL's host may be called at this address to which its name resolves."""
        if not self.hosts and not self.networks:
            return True
        ip = ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return host.lower() in self.hosts or any(ip in network for network in self.networks)


EVERYWHERE = WebhookAllowList()


def is_sound_secret(secret: str) -> bool:
    """Return whether a text can be a robot's secret; an empty one is none."""
    return len(secret) <= MAX_SECRET_LENGTH and all("!" <= sign <= "~" for sign in secret)
