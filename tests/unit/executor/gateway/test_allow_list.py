"""Which URLs may be registered, and at which addresses they may be called."""

import pytest

from warren.broker.destinations import AddressRefused
from warren.broker.topology import check_address
from warren.executor.gateway.allow_list import AllowList, NotListed

EVERYTHING = AllowList.parse("0.0.0.0/0, ::/0")


@pytest.mark.parametrize(
    ("url", "text", "address"),
    [
        ("http://10.0.0.5:9999", "http://10.0.0.5:9999", "10.0.0.5:9999"),
        ("http://10.0.0.5:9999/", "http://10.0.0.5:9999", "10.0.0.5:9999"),
        ("HTTP://Jobs.Internal:9999/", "http://jobs.internal:9999", "jobs.internal:9999"),
        ("http://jobs", "http://jobs:80", "jobs:80"),
        (f"http://{'a' * 63}.b", f"http://{'a' * 63}.b:80", f"{'a' * 63}.b:80"),
        ("http://[::1]:9999/", "http://[::1]:9999", "0::1:9999"),
        ("http://[fd00:0:0::5]:9999", "http://[fd00::5]:9999", "fd00::5:9999"),
    ],
)
def test_url_has_one_spelling_and_names_an_executor(url: str, text: str, address: str) -> None:
    remote = AllowList.parse("0.0.0.0/0, ::/0, jobs.internal, jobs").check(url)

    assert (remote.text, remote.address) == (text, address)


@pytest.mark.parametrize(
    "url", ["https://jobs:80", "http://jobs:80/a", "http://jobs:80/b", f"http://{'a.' * 100}b:80"]
)
def test_urls_of_one_host_and_port_have_different_addresses(url: str) -> None:
    address = EVERYTHING.check(url).address

    assert check_address(address) not in ("jobs:80", EVERYTHING.check("http://jobs:80/c").address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "10.0.0.5:9999",
        "ftp://10.0.0.5:9999",
        "file:///etc/passwd",
        "http://",
        "http:///run",
        "http://user@10.0.0.5:9999",
        "http://user:password@10.0.0.5:9999",
        "http://10.0.0.5:9999@evil.example/",
        "http://10.0.0.5:9999/?x=1",
        "http://10.0.0.5:9999/#x",
        "http://10.0.0.5:9999/%2e%2e/",
        "http://10.0.0.5:9999/../admin",
        "http://10.0.0.5:9999//evil",
        "http://10.0.0.5:9999/a b",
        "http://10.0.0.5:9999\\@evil.example",
        "http://10.0.0.5:9999\r\nHost: evil",
        f"http://{'a' * 64}.internal:9999",
        f"http://jobs.{'a' * 64}:9999",
        "http://10.0.0.5:0",
        "http://10.0.0.5:65536",
        "http://10.0.0.5:x",
        "http://0x7f.1:9999",
        "http://0x7f000001:9999",
        "http://2130706433:9999",
        "http://0177.0.0.1:9999",
        "http://127.1:9999",
        "http://127.0.0.1.:9999",
        "http://jobs.123:9999",
        "http://[fe80::1%25eth0]:9999",
        "http://[::1:9999",
        "http://例子.example:9999",
        f"http://{'a' * 300}:9999",
    ],
)
def test_url_is_refused_whatever_is_allowed(url: str) -> None:
    with pytest.raises(AddressRefused):
        EVERYTHING.check(url)


@pytest.mark.parametrize("allowed", ["_jobs", "0.0.0.0/0"])
def test_host_whose_name_cannot_be_an_executors_is_refused_with_the_reason(allowed: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        AllowList.parse(allowed).check("http://_jobs:9999")

    assert str(refused.value) == (
        "_jobs cannot name an executor: it has to begin with a letter or a digit"
    )


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("10.0.0.0/8", "http://11.0.0.5:9999"),
        ("10.0.0.5:9999", "http://10.0.0.5:9998"),
        ("10.0.0.5:9999", "http://10.0.0.6:9999"),
        ("jobs.internal", "http://jobs.internal.evil.example:9999"),
        ("jobs.internal:9999", "http://jobs.internal:80"),
        ("[fd00::5]:9999", "http://[fd00::6]:9999"),
    ],
)
def test_url_beside_the_list_is_refused_with_what_to_do(allowed: str, url: str) -> None:
    with pytest.raises(NotListed, match="is not listed in WARREN_GATEWAY_ALLOW; add it"):
        AllowList.parse(allowed).check(url)


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:11.0.0.5]"])
def test_url_that_no_list_could_allow_is_not_asked_for(host: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        AllowList.parse("10.0.0.0/8").check(f"http://{host}:9999")

    assert not isinstance(refused.value, NotListed)


@pytest.mark.parametrize(
    ("allowed", "address"),
    [
        ("10.0.0.0/8", "11.0.0.5"),
        ("10.0.0.0/8:80", "10.0.0.5"),
        ("jobs.internal:9999", "169.254.169.254"),
        ("jobs.internal:9999", "::ffff:10.0.0.5"),
        ("0.0.0.0/0", "fd00::5"),
    ],
)
def test_host_is_not_called_where_its_name_must_not_lead(allowed: str, address: str) -> None:
    with pytest.raises(AddressRefused):
        AllowList.parse(allowed).admit("jobs.internal", 9999, address)


@pytest.mark.parametrize("allowed", ["10.0.0.0/8", "10.0.0.0/8:9999", "jobs.internal", "10.0.0.5"])
def test_host_is_called_where_its_name_may_lead(allowed: str) -> None:
    AllowList.parse(allowed).admit("jobs.internal", 9999, "10.0.0.5")
