"""Linux tells what processes there are, and which of them are ours."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.processes import alive
from warren.executor.fork_server import linux
from warren.executor.fork_server.termination import kill_and_reap


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def test_row_tells_a_process(child: "subprocess.Popen[bytes]") -> None:
    row = eventually(lambda: (r := linux.process_row(child.pid)) and r.name == "sleep" and r)

    assert row.parent == os.getpid()
    assert row.group == row.session == child.pid
    own = linux.process_row(os.getpid())
    assert own is not None
    assert row.started >= own.started


def test_row_of_nobody_is_none() -> None:
    assert linux.process_row(2**22 + 1) is None


@pytest.mark.parametrize("name", ["a) R 1 (b", "() 0 0", "with blank"])
def test_name_with_brackets_is_read(name: str) -> None:
    code = "import time, sys; open('/proc/self/comm', 'w').write(sys.argv[1]); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, name]) as process:
        row = eventually(lambda: (r := linux.process_row(process.pid)) and r.name == name and r)
        process.kill()

    assert row.parent == os.getpid()


def test_children_are_found_dead_or_alive(child: "subprocess.Popen[bytes]") -> None:
    assert child.pid in {row.pid for row in linux.children_of(os.getpid())}

    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert child.pid in {row.pid for row in linux.children_of(os.getpid())}


def in_a_process(code: str) -> str:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os, time, signal\nfrom executor.fork_server import linux\n{code}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_process_without_children_has_no_living_child() -> None:
    assert in_a_process("print(linux.has_living_child())") == "False\n"


def test_living_child_is_seen() -> None:
    code = "pid = os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '60')\nprint(linux.has_living_child())"
    assert in_a_process(f"{code}\nos.kill(pid, 9)") == "True\n"


def test_dead_children_are_reaped_on_the_way() -> None:
    code = """
pids = [os.spawnlp(os.P_NOWAIT, 'true', 'true') for _ in range(3)]
for pid in pids: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(linux.has_living_child(), linux.children_of(os.getpid()))
"""
    assert in_a_process(code) == "False []\n"


def test_subreaper_gets_the_orphans_and_can_end_them() -> None:
    code = """
from warren.executor.fork_server.termination import kill_and_reap
linux.become_subreaper()
if os.fork() == 0:
    os.setsid()
    for _ in range(3):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
    os._exit(0)
os.wait()
print(len(linux.children_of(os.getpid())))
while orphans := linux.children_of(os.getpid()):
    kill_and_reap(orphans)
print("none left")
"""
    assert in_a_process(code) == "3\nnone left\n"


def test_nobody_to_kill_is_no_error() -> None:
    kill_and_reap([])
    gone = linux.ProcessRow(2**22 + 1, 1, 2**22 + 1, 2**22 + 1, 0, "gone", is_dead=False)
    kill_and_reap([gone])


def test_process_dies_with_its_parent() -> None:
    code = """
is_there, tell = os.pipe()
middle = os.fork()
if middle == 0:
    parent = os.getpid()
    if os.fork() == 0:
        linux.die_with_parent(parent)
        os.write(1, f"{os.getpid()}\\n".encode())
        os.write(tell, b"x")
        time.sleep(60)
    time.sleep(60)
os.read(is_there, 1)
os.kill(middle, 9)
os.wait()
"""
    pid = int(in_a_process(code))

    eventually(lambda: not alive(pid))  # a zombie may stay, for whoever adopted it


def test_parent_that_is_dead_already_is_noticed() -> None:
    code = "if os.fork() == 0: linux.die_with_parent(1)\nprint(os.wait()[1])"

    assert in_a_process(code) == f"{1 << 8}\n"


def test_lack_of_memory_is_told_once(tmp_path: Path) -> None:
    counters = Path(shutil.copy("/proc/vmstat", tmp_path))
    watch = linux.OomWatch(counters)
    assert not watch.has_killed()

    [(line, count)] = re.findall(r"(oom_kill (\d+)\n)", counters.read_text())
    counters.write_text(counters.read_text().replace(line, f"oom_kill {int(count) + 1}\n"))

    assert watch.has_killed()
    assert not watch.has_killed()


def test_name_is_cut_where_the_kernel_cuts_it() -> None:
    code = (
        "linux.set_process_name(b'a-name-that-is-too-long')\nprint(open('/proc/self/comm').read())"
    )

    assert in_a_process(code).strip() == "a-name-that-is-"


def test_signal_numbers_fit(child: "subprocess.Popen[bytes]") -> None:
    child.send_signal(signal.SIGKILL)

    assert child.wait() == -9


def test_wiped_variable_is_in_no_copy_of_the_environment() -> None:
    code = (
        "os.environ['AT_RUN_TIME'] = 'hush'\n"
        "linux.wipe_variables(['GIVEN', 'AT_RUN_TIME', 'NOT_THERE'])\n"
        "print(os.environ.get('GIVEN'), os.environ.get('AT_RUN_TIME'), os.environ['KEPT'])\n"
        "print(os.popen('echo $GIVEN$KEPT').read().strip())\n"
        "print(b'hush' in open('/proc/self/environ', 'rb').read())\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", f"import os\nfrom executor.fork_server import linux\n{code}"],
        env=os.environ | {"GIVEN": "hush", "KEPT": "kept"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["None None kept", "kept", "False"]
