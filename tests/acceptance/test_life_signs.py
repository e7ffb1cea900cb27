"""An executor's host knows whether it works: systemd's watchdog, and `warren check`."""

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.command import run_warren
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.processes import environment_of, stop
from warren.executor.state_folder import SIGNS_NAME


def test_stopped_executor_feeds_no_watchdog_and_the_check_names_it(
    fleet: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.app = "watched-app"
    state = tmp_path / "state"
    monkeypatch.setitem(fleet.env, "NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setitem(fleet.env, "WARREN_STATE_DIR", str(state))
    check = ("check", "--alive", "--for", "executor")
    assert f"none runs with the state folder {state}" in fleet.warren_fails(*check)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(30)
        executor = fleet.executor("watched")
        fleet.await_executors(executor)
        told = {systemd.recv(100) for _ in range(2)}
        assert told == {b"READY=1", b"WATCHDOG=1"}
        eventually(lambda: run_warren(*check, folder=fleet.folder, env=fleet.env).returncode == 0)
        assert fleet.warren(*check) == "ok     executor: watched takes runs\n"
        assert all("NOTIFY_SOCKET" not in environment_of(p.pid) for p in executor.tree())

        stop(executor.pid)
        systemd.settimeout(0)
        with suppress(BlockingIOError):
            while systemd.recv(100):  # what it said before
                pass
        long_ago = (state / "watched" / SIGNS_NAME).stat().st_mtime - 60
        os.utime(state / "watched" / SIGNS_NAME, (long_ago, long_ago))

        words = f"watched (process {executor.pid}) has shown no sign of life for 6"
        assert words in fleet.warren_fails(*check)
        with pytest.raises(BlockingIOError):
            systemd.recv(100)

        executor.send(signal.SIGCONT)
        systemd.settimeout(30)
        assert systemd.recv(100) == b"WATCHDOG=1"
        assert fleet.warren(*check) == "ok     executor: watched takes runs\n"
        executor.send(signal.SIGTERM)
        assert executor.wait() == 0
    assert "none runs with" in fleet.warren_fails(*check)
