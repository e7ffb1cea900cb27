"""Tells whether a host is this machine, by its name alone."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host is certainly this machine; names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
