"""The keeper ends all that came from its command."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.processes import alive, descendants
from tests.support.service import Service

# Starts a daemon: of another session, without a parent; and one that ignores polite signals.
DAEMONS = """
trap '' TERM
(setsid sleep 301 >/dev/null 2>&1 &)
sleep 302 &
echo ready
wait
"""


def names(service: Service) -> list[str]:
    """Return what runs; a subshell is called sh until it has become its command."""
    return sorted(process.name for process in service.processes())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(["sh", "-c", DAEMONS], env={}, output=tmp_path / "output")
    eventually(
        lambda: "ready" in service.last_words() and names(service) == ["sh", "sleep", "sleep"]
    )
    yield service
    service.end()


def test_end_leaves_no_daemon_behind(service: Service) -> None:
    processes = service.processes()

    service.end()

    assert service.has_ended
    assert [process for process in processes if process.is_alive] == []


def test_death_of_the_command_ends_its_daemons(service: Service) -> None:
    processes = service.processes()
    [shell] = [process for process in processes if process.name == "sh"]

    service.signal(shell.pid, signal.SIGKILL)

    assert service.wait(30)
    assert [process for process in processes if process.is_alive] == []


def test_wait_that_is_too_short_says_so(service: Service) -> None:
    assert not service.wait(0.01)
    assert not service.has_ended


def test_process_is_found_by_name(service: Service) -> None:
    assert service.pid_of("sh") in {process.pid for process in service.processes()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_death_of_the_tests_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys, pathlib, time\n"
        "from tests.support.service import Service\n"
        f"path = pathlib.Path({str(tmp_path / 'output')!r})\n"
        "Service(['sleep', '303'], env={}, output=path)\n"
        "print('ready', flush=True)\n"
        "time.sleep(300)\n"
    )
    root = Path(__file__).parents[3]
    owner = subprocess.Popen(
        [sys.executable, "-c", code], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        tree = eventually(lambda: [p for p in descendants(owner.pid) if p.name == "sleep"])

        owner.send_signal(number)
        owner.wait()

    eventually(lambda: not any(process.is_alive for process in tree))


def test_keeper_whose_owner_died_before_it_looked_starts_nothing(tmp_path: Path) -> None:
    keeper = Path(__file__).parents[2] / "support" / "contained_command.py"
    gone = subprocess.run(["sh", "-c", "echo $$"], check=True, capture_output=True, text=True)
    assert not alive(int(gone.stdout))

    done = subprocess.run(
        [sys.executable, str(keeper), gone.stdout.strip(), "touch", str(tmp_path / "started")],
        check=False,
    )

    assert done.returncode == 143
    assert not (tmp_path / "started").exists()


def test_keeper_exits_as_its_command_does() -> None:
    keeper = Path(__file__).parents[2] / "support" / "contained_command.py"

    done = subprocess.run(
        [sys.executable, str(keeper), str(os.getpid()), "sh", "-c", "exit 7"], check=False
    )

    assert done.returncode == 7
