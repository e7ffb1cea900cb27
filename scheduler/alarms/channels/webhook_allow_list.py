"""The operator's list of hosts and networks for webhooks; else `webhook_url` alone decides."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Self

from warren.scheduler.alarms.channels.webhook_url import literal

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
