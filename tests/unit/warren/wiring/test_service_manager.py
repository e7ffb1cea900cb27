"""What systemd is told."""

import secrets
import socket
from pathlib import Path

import pytest

from warren.wiring.processes import ServiceManager


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_hears_that_it_is_ready_and_works(tmp_path: Path, is_abstract: bool) -> None:
    address = f"@warren-{secrets.token_hex(8)}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address.replace("@", "\0") if is_abstract else address)
        systemd.settimeout(5)
        manager = ServiceManager(address)

        manager.ready()
        manager.beat()

        assert [systemd.recv(100), systemd.recv(100)] == [b"READY=1", b"WATCHDOG=1"]


def test_neither_a_missing_nor_a_full_socket_holds_it_up(tmp_path: Path) -> None:
    ServiceManager("").ready()
    ServiceManager(str(tmp_path / "none")).beat()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))

        for _ in range(1_000):  # more than it holds
            ServiceManager(str(tmp_path / "notify")).beat()
