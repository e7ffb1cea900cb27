"""Where an operator allows webhooks to go; without a list, wherever `webhook_url` allows."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Self

from scheduler.alarms.channels.webhook_url import literal

_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class WebhookAllowList:
    """Where webhooks may go: to these hosts, and to addresses in these networks.

    Without either, anywhere.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the list that a comma list of networks, addresses and host names describes.

        Raises:
            ValueError: one of them is neither.

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
        """Return whether a host of a URL may be called at an address that its name leads to."""
        if not self.hosts and not self.networks:
            return True
        ip = ip_address(address.partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        return host.lower() in self.hosts or any(ip in network for network in self.networks)


EVERYWHERE = WebhookAllowList()
