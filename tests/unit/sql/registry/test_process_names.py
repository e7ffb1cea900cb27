"""A process is found on its host, and on no other."""

import pytest

from warren.sql.registry.presence import is_of_host, process_name

BOOT = "0123456789abcdef"


@pytest.mark.parametrize("host", ["web", "web-2", "h" * 63])
def test_a_process_is_of_its_host(host: str) -> None:
    assert is_of_host(process_name(host, BOOT), host)


@pytest.mark.parametrize(("one", "other"), [("web", "web-2"), ("web", "web-"), ("web", "we")])
def test_hosts_whose_names_begin_alike_are_kept_apart(one: str, other: str) -> None:
    assert not is_of_host(process_name(one, BOOT), other)
    assert not is_of_host(process_name(other, BOOT), one)
