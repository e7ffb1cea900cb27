"""Which hosts jobs without code may call, by the address that is connected to."""

import pytest

from warren.executor.builtin.hosts import HostRefused, HostRules

PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
    *("2002:7f00:1::", "2001:0:7f00:1::", "64:ff9b:1::a00:1"),
]


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("listed", ["", "api.example.com", "*.example.com", "8.8.8.0/24"])
def test_addresses_that_are_not_public_are_refused_unless_named(address: str, listed: str) -> None:
    with pytest.raises(HostRefused, match="is not public, and not named in WARREN_HTTP_HOSTS"):
        HostRules.parse(listed).check("evil.example.com", address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_without_a_list_every_public_address_may_be_called(address: str) -> None:
    HostRules().check("api.example.com", address)


@pytest.mark.parametrize(
    ("listed", "host", "address"),
    [
        ("api.example.com", "API.example.com.", "8.8.8.8"),
        ("api.internal", "api.internal", "10.1.2.3"),
        ("*.example.com", "a.b.example.com", "8.8.8.8"),
        ("10.0.0.0/8", "whatever.internal", "10.1.2.3"),
        ("10.0.0.0/8", "10.1.2.3", "::ffff:10.1.2.3"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("::1", "localhost", "::1"),
        ("localhost", "localhost", "127.0.0.1"),
    ],
)
def test_what_is_listed_may_be_called(listed: str, host: str, address: str) -> None:
    HostRules.parse(listed).check(host, address)


@pytest.mark.parametrize(
    ("listed", "host"),
    [
        ("api.example.com", "example.com"),
        ("api.example.com", "xapi.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", "notexample.com"),
        ("8.8.4.0/24", "dns.example.com"),
    ],
)
def test_with_a_list_nothing_else_may_be_called(listed: str, host: str) -> None:
    with pytest.raises(HostRefused, match="is not among WARREN_HTTP_HOSTS"):
        HostRules.parse(listed).check(host, "8.8.8.8")


@pytest.mark.parametrize(
    "item", ["0x7f.1", "2130706433", "0177.0.0.1", "a..b", "http://x", "10.0.0.1/8", "x:80", "-x"]
)
def test_an_entry_that_is_no_host_and_no_network_is_named(item: str) -> None:
    with pytest.raises(ValueError, match="is neither a host's name"):
        HostRules.parse(f"ok.example.com, {item}")
