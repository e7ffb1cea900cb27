"""Whether a host is this machine, judging by its name alone."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host is surely this machine; no name is resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
