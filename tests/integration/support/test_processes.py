"""What /proc tells about processes."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port, free_ports
from tests.support.processes import (
    alive,
    descendants,
    every_process,
    find,
    identify,
    processes_with_env,
)

MARK = "WARREN_TEST_MARK"


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "300"], env={MARK: uuid.uuid4().hex, "PATH": "/bin"})
    yield process
    process.kill()
    process.wait()


def mark_of(process: "subprocess.Popen[bytes]") -> str:
    environment = Path(f"/proc/{process.pid}/environ").read_bytes().decode()
    return environment.split(f"{MARK}=")[1].split("\0")[0]


def test_living_process_is_found_with_name_and_parent(sleeper: "subprocess.Popen[bytes]") -> None:
    eventually(lambda: identify(sleeper.pid).name == "sleep")

    process = identify(sleeper.pid)

    assert process.parent == os.getpid()
    assert process.is_alive
    assert alive(sleeper.pid)


def test_zombie_is_not_alive(sleeper: "subprocess.Popen[bytes]") -> None:
    process = identify(sleeper.pid)

    sleeper.kill()

    eventually(lambda: identify(sleeper.pid).state == "Z")
    assert not alive(sleeper.pid)
    assert not process.is_alive
    assert process.pid not in {p.pid for p in descendants(os.getpid())}


def test_reaped_process_is_nowhere(sleeper: "subprocess.Popen[bytes]") -> None:
    sleeper.kill()
    sleeper.wait()

    assert find(sleeper.pid) is None
    assert not alive(sleeper.pid)


def test_later_process_of_the_same_id_is_another(sleeper: "subprocess.Popen[bytes]") -> None:
    former = replace(identify(sleeper.pid), born=1)

    assert not former.is_alive


def test_name_with_brackets_and_spaces_does_not_confuse(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "300"]) as process:
        eventually(lambda: identify(process.pid).name == "a) S 1 (b")

        assert identify(process.pid).parent == os.getpid()

        process.kill()


def test_whole_tree_is_found_parents_first() -> None:
    command = "sh -c 'sleep 300; true' & wait"
    with subprocess.Popen(["sh", "-c", command], start_new_session=True) as process:
        names = eventually(lambda: chain_of_three(process.pid))

        assert names == ["sh", "sleep"]

        os.killpg(process.pid, signal.SIGKILL)


def chain_of_three(pid: int) -> list[str]:
    found = [process.name for process in descendants(pid)]
    return found if "sleep" in found else []


def test_processes_are_found_by_their_environment(sleeper: "subprocess.Popen[bytes]") -> None:
    mark = eventually(lambda: mark_of(sleeper))

    assert [p.pid for p in processes_with_env(MARK, mark)] == [sleeper.pid]
    assert processes_with_env(MARK, mark[:-1]) == []


def test_scan_survives_processes_that_vanish() -> None:
    code = "import subprocess\nwhile True: subprocess.run(['true'])"
    with subprocess.Popen([sys.executable, "-c", code]) as churn:
        scans = [{process.pid for process in every_process()} for _ in range(100)]
        churn.kill()

    assert all({os.getpid(), churn.pid} <= scan for scan in scans)


def test_free_ports_differ_and_lie_below_the_ephemeral_ones() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    ports = [*free_ports(50), free_port()]

    assert len(set(ports[:50])) == 50
    assert max(ports) < first
