"""Where webhooks, `warren.http` and the gateway may call: one table of addresses for all three."""

from collections.abc import Callable

import pytest

from warren.broker.destinations import AddressRefused, Destinations, literal
from warren.executor.builtin.http import HttpHosts
from warren.executor.gateway.allow_list import AllowList
from warren.scheduler.alarms.addresses import WebhookAllowList, check_webhook

EVERYTHING = "0.0.0.0/0, ::/0, evil.example.com, *.example.com"
CALLERS = (WebhookAllowList, HttpHosts, AllowList)
HOSTILE = [
    *("169.254.169.254", "169.254.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"),
    *("100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd00:ec2::254%eth0"),
    *("fe80::1", "fe80::1%eth0", "ff02::1", "::", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1::808:808"),
    *("::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "64:ff9b::a9fe:a9fe"),
    *("2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1", "2001:0:808:808::5601:5601"),
]
ODD_SPELLINGS = ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "0"]
#: `warren.http` has to be told of them by name, and only the gateway refuses those that carry one.
NOT_PUBLIC = [
    *("127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "240.0.0.1"),
    *("::1", "fc00::1"),
]
NOT_PUBLIC_CARRIED = [
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    "2001:0:808:808::f5ff:fffe",
]
PUBLIC = ["8.8.8.8", "2606:4700::1111"]


def refused(call: Callable[..., object], *args: object) -> bool:
    try:
        call(*args)
    except (AddressRefused, ValueError):
        return True
    return False


def test_hostile_addresses_are_never_called_whatever_is_listed() -> None:
    assert {
        (caller.__name__, address)
        for caller in CALLERS
        for address in HOSTILE
        if not refused(caller.parse(EVERYTHING).admit, "evil.example.com", 80, address)
    } == set()


def test_hostile_addresses_are_refused_in_urls_in_every_spelling() -> None:
    urls = [f"http://[{host}]/" if ":" in host else f"http://{host}/" for host in HOSTILE]
    urls += [f"http://{host}/" for host in ODD_SPELLINGS]

    assert [url for url in urls if not refused(check_webhook, url)] == []
    assert [url for url in urls if not refused(AllowList.parse(EVERYTHING).check, url)] == []
    assert {str(literal(host)) for host in ODD_SPELLINGS} == {"169.254.169.254", "0.0.0.0"}


@pytest.mark.parametrize("listed", ["", EVERYTHING])
def test_other_addresses_are_called_as_each_caller_says(listed: str) -> None:
    addresses = NOT_PUBLIC + NOT_PUBLIC_CARRIED + PUBLIC

    called = {
        caller: {
            address
            for address in addresses
            if not refused(caller.parse(listed).admit, "other.example.org", 80, address)
        }
        for caller in CALLERS
    }

    assert called == {
        WebhookAllowList: {*addresses},
        HttpHosts: {*(addresses if listed else PUBLIC)},
        AllowList: {*(NOT_PUBLIC + PUBLIC if listed else ())},
    }


@pytest.mark.parametrize(
    ("listed", "host", "address"),
    [
        ("api.example.com", "API.example.com.", "8.8.8.8"),
        ("api.internal", "api.internal", "10.1.2.3"),
        ("api.internal:80", "api.internal", "10.1.2.3"),
        ("*.example.com", "a.b.example.com", "8.8.8.8"),
        ("10.0.0.0/8", "whatever.internal", "10.1.2.3"),
        ("[fd00::]/8:80, 10.0.0.0/8:80", "10.1.2.3", "10.1.2.3"),
        ("::1", "localhost", "::1"),
    ],
)
def test_what_is_listed_may_be_called(listed: str, host: str, address: str) -> None:
    assert not [
        caller for caller in CALLERS if refused(caller.parse(listed).admit, host, 80, address)
    ]


@pytest.mark.parametrize(
    ("listed", "host", "address"),
    [
        ("api.example.com", "example.com", "8.8.8.8"),
        ("api.example.com", "xapi.example.com", "8.8.8.8"),
        ("api.example.com:443", "api.example.com", "8.8.8.8"),
        ("*.example.com", "example.com", "8.8.8.8"),
        ("*.example.com", "notexample.com", "8.8.8.8"),
        ("*.example.com", "a.example.com", "10.0.0.1"),
        ("8.8.4.0/24", "dns.example.com", "8.8.8.8"),
        ("8.8.8.0/24:443", "dns.example.com", "8.8.8.8"),
        ("::/0", "dns.example.com", "64:ff9b::7f00:1"),
    ],
)
def test_with_a_list_nothing_else_may_be_called(listed: str, host: str, address: str) -> None:
    assert [
        caller for caller in CALLERS if not refused(caller.parse(listed).admit, host, 80, address)
    ] == []


@pytest.mark.parametrize(
    "item",
    [
        *("0x7f.1", "2130706433", "0177.0.0.1", "a..b", "http://x", "10.0.0.1/8", "10.0.0.0/33"),
        *("-x", "a b", "*", "*.*.x", "*.1.2", "[jobs]:80x", "jobs:80:90", "jobs:0", "jobs:70000"),
        *("jobs:\N{ARABIC-INDIC DIGIT THREE}", "job\N{LATIN SMALL LETTER LONG S}.example.com"),
    ],
)
def test_an_item_that_is_no_host_and_no_network_is_named(item: str) -> None:
    with pytest.raises(ValueError, match=r"'.*' (is neither a network|has no port)"):
        Destinations.parse(f"ok.example.com, {item}")
