"""Zygote and executor may die at any moment: no process outlives them, no run is forgotten."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.eventually import eventually
from tests.support.processes import Process, environment_of, find
from tests.support.slot_harness import SlotHarness, processes_holding
from warren.broker.messages import Outcome
from warren.executor.fork_server.termination import MARK

SOURCE = r"""
import os, signal, subprocess, sys, time

HERE = os.path.dirname(__file__)

@job("quick")
def quick(context):
    return context.param

@job("family")
def family(context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = os.dup(os.open(os.path.join(HERE, "held"), os.O_RDWR | os.O_CREAT))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    subprocess.Popen(["sleep", "60"], start_new_session=True, env={}, pass_fds=[held])
    with open(os.path.join(HERE, "begun"), "a") as file:
        file.write(context.param + "\n")
    time.sleep(60)

@job("slow.destroy", destroy=lambda: time.sleep(60))
def slow_destroy(context):
    return "done"

@job("hangs.at.exit")
def hangs_at_exit(context):
    import atexit
    def hang():
        with open(os.path.join(HERE, "begun"), "a") as file:
            file.write("the exit\n")
        time.sleep(60)
    atexit.register(hang)
    return "done"
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path, SOURCE, count=2).open()
    yield harness
    harness.close()


def kill(process: Process, number: int = signal.SIGKILL) -> None:
    assert process.is_alive
    os.kill(process.pid, number)


def test_runs_of_a_dead_zygote_end_failed_and_nothing_is_left(harness: SlotHarness) -> None:
    run_ids = [harness.start("family", "a"), harness.start("family", "b")]
    harness.turn(lambda: harness.note("begun").count("\n") == 2)
    harness.turn(lambda: len(processes_holding(harness.folder / "held")) >= 6)

    kill(harness.zygote)
    finished = [harness.wait(run_id) for run_id in run_ids]

    assert processes_holding(harness.folder / "held") == []
    assert {(f.outcome, f.message) for f in finished} == {
        (Outcome.FAILED, "the process that starts jobs on its executor died")
    }


def test_dead_zygote_is_replaced_and_the_slots_work_on(harness: SlotHarness) -> None:
    for turn in range(3):
        kill(harness.zygote)
        harness.turn(lambda: harness.slots.free == 0)
        harness.turn(lambda ready=turn + 1: harness.ready_count == ready)

        assert harness.slots.free == 2
        assert harness.run("quick", "again").message == "again"


def test_result_that_was_there_stands_when_the_zygote_dies(harness: SlotHarness) -> None:
    run_id = harness.start("hangs.at.exit", process="fresh")
    harness.turn(lambda: harness.note("begun"))  # the result was sent before,
    harness.turn_for(0.01)  # so it is read

    kill(harness.zygote)

    finished = harness.wait(run_id)
    assert (finished.outcome, finished.message) == (
        Outcome.SUCCEEDED,
        "done (the process that starts jobs on its executor died)",
    )


def test_kill_stays_a_kill_when_the_zygote_dies(harness: SlotHarness) -> None:
    run_id = harness.start("family")
    harness.turn(lambda: harness.note("begun"))
    harness.slots.stop(run_id, "killed by ann")

    kill(harness.zygote)

    assert harness.wait(run_id).outcome is Outcome.KILLED


def test_zygote_that_dies_while_it_forks_loses_no_run(harness: SlotHarness) -> None:
    for delay in (0, 0, 0.001, 0.002, 0.004, 0.008):
        harness.turn(lambda: harness.slots.free == 2)
        zygote, ready = harness.zygote, harness.ready_count
        run_ids = [harness.start("quick", process="fresh") for _ in range(2)]
        harness.turn_for(delay)
        kill(zygote)

        assert {harness.wait(each).message for each in run_ids} <= {
            "the process that starts jobs on its executor died",
            "(the process that starts jobs on its executor died)",
            "",
        }
        harness.turn(lambda before=ready: harness.ready_count > before)


def test_zygote_does_not_mind_ctrl_c_and_sigterm(harness: SlotHarness) -> None:
    kill(harness.zygote, signal.SIGINT)
    kill(harness.zygote, signal.SIGTERM)

    assert harness.run("quick", "still").message == "still"
    assert harness.ready_count == 0


def test_handlers_that_no_longer_load_are_tried_until_they_do(harness: SlotHarness) -> None:
    good = harness.file.read_text()
    harness.file.write_text("broken = ")

    with capture_logs() as events:
        kill(harness.zygote)
        harness.turn(lambda: any("SyntaxError" in event.get("why", "") for event in events))
    assert harness.slots.free == 0
    away = str(harness.slots.away)
    harness.file.write_text(good)

    harness.turn(lambda: harness.slots.free == 2)
    assert harness.run("quick", "mended").message == "mended"
    assert away.startswith(
        "the process that starts jobs on its executor died and cannot be replaced: "
    )
    assert "SyntaxError" in away
    assert harness.slots.away is None


def test_handlers_whose_import_ends_the_process_are_no_longer_counted_on(
    harness: SlotHarness,
) -> None:
    harness.file.write_text("import os\nos._exit(3)\n")

    kill(harness.zygote)
    assert harness.slots.away is None
    harness.turn(lambda: harness.slots.away is not None)

    assert str(harness.slots.away).endswith("imports the handlers ended with exit code 3")


def test_handlers_whose_import_hangs_are_no_longer_counted_on(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, slow_seconds=0.5).open()
    harness.file.write_text("import time\ntime.sleep(600)\n")

    kill(harness.zygote)
    harness.turn(lambda: harness.slots.away is not None)

    assert "importing the handlers takes over 0.5 s" in str(harness.slots.away)
    harness.close()


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("os._exit(7)", "ended with exit code 7 without a result"),
        ("os.kill(os.getpid(), 9)", "SIGKILL (signal 9)"),
    ],
)
def test_run_whose_new_process_dies_before_it_reads_it_fails_as_that_ended(
    tmp_path: Path, end: str, message: str
) -> None:
    source = SOURCE + f"\nos.register_at_fork(after_in_child=lambda: {end})\n"
    harness = SlotHarness(tmp_path, source).open()

    finished = harness.run("quick", seconds=60)

    assert (finished.outcome, finished.message) == (Outcome.FAILED, message)
    harness.close()


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[SlotHarness]:
    """Its zygote has to answer within five seconds."""
    harness = SlotHarness(tmp_path, SOURCE, ping_seconds=0.1, silence_seconds=5).open()
    yield harness
    harness.close()


def test_zygote_that_does_not_answer_is_replaced(impatient: SlotHarness) -> None:
    harness = impatient
    link = harness.slots._supervisor._link
    assert link is not None
    heard: set[float] = set()
    harness.turn(lambda: heard.add(link.last_heard_at) or len(heard) > 3)
    assert harness.ready_count == 0, "one that answers is left alone"

    kill(harness.zygote, signal.SIGSTOP)

    harness.turn(lambda: harness.ready_count == 1)
    assert harness.run("quick", "again").message == "again"


def test_children_of_others_in_this_process_are_spared(harness: SlotHarness) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        kill(harness.zygote)
        harness.turn(lambda: harness.ready_count == 1)

        assert bystander.poll() is None
        bystander.kill()


def test_executors_that_are_threads_of_one_process_do_not_touch_each_other(
    tmp_path: Path,
) -> None:
    floors = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        floors.append(SlotHarness(tmp_path / name, SOURCE))
    barrier = threading.Barrier(2)
    messages: dict[int, list[str]] = {}

    def work(at: int) -> None:
        harness = floors[at].open()
        zygote = harness.zygote
        messages[at] = [harness.run("quick", str(at)).message for _ in range(20)]
        run_id = harness.start("family")
        harness.turn(lambda: harness.note("begun"))
        barrier.wait(60)
        if at == 0:
            kill(zygote)
            messages[at].append(harness.wait(run_id).message)
            barrier.wait(60)
        else:
            barrier.wait(60)
            harness.turn_for(0.1)
            messages[at].append("alive" if run_id not in harness.finished else "dead")
        harness.close()

    threads = [threading.Thread(target=work, args=(at,)) for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert messages == {
        0: ["0"] * 20 + ["the process that starts jobs on its executor died"],
        1: ["1"] * 20 + ["alive"],
    }


EXECUTOR = """
import sys
from pathlib import Path
from tests.support.slot_harness import SlotHarness

if __name__ == "__main__":
    harness = SlotHarness(Path(sys.argv[1]), Path(sys.argv[2]).read_text(), count=3).open()
    harness.run("quick")
    for _ in range(2):
        harness.start("family")
    harness.turn(lambda: harness.note("begun").count("\\n") == 2)
    print(harness.zygote.pid, flush=True)
    sys.stdin.readline()
    {then}
"""


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("harness.turn_for(60)", signal.SIGKILL),
        ("harness.turn_for(60)", signal.SIGTERM),
        ("import time; time.sleep(60)", signal.SIGKILL),
        ("sys.exit(0)", None),
        ("1 / 0", None),
    ],
)
def test_nothing_outlives_an_executor_that_dies(
    tmp_path: Path, then: str, number: int | None
) -> None:
    script = tmp_path / "executor_of_test.py"
    script.write_text(EXECUTOR.replace("{then}", then))
    (tmp_path / "source").write_text(SOURCE)
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), str(tmp_path / "source")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as executor:
        assert executor.stdin is not None
        assert executor.stdout is not None
        zygote = find(int(executor.stdout.readline()))
        assert zygote is not None
        executor.stdin.write("\n")
        executor.stdin.flush()
        if number is not None:
            executor.send_signal(number)
        executor.wait(30)

        eventually(lambda: not zygote.is_alive)
        eventually(lambda: not processes_holding(tmp_path / "held"))


def test_zygote_that_is_importing_dies_with_its_executor(tmp_path: Path) -> None:
    script = tmp_path / "executor_of_test.py"
    script.write_text(EXECUTOR.replace("{then}", "pass"))
    mark = tmp_path / "pid"
    (tmp_path / "source").write_text(
        f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), str(tmp_path / "source")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as executor:
        zygote = eventually(
            lambda: mark.exists() and mark.read_text() and find(int(mark.read_text()))
        )
        executor.kill()
        executor.wait(30)

        eventually(lambda: not zygote.is_alive)


def test_run_that_waited_while_its_handler_went_fails(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=1, idle_count=0).open()
    harness.run("slow.destroy")
    waiting = harness.start("quick")
    # Of another length: bytecode of a source of the same second and length counts as current.
    harness.file.write_text(harness.file.read_text().replace('@job("quick")', '@job("another")'))

    kill(harness.zygote)

    assert harness.wait(waiting).message == "no handler named 'quick' here"
    assert harness.run("another", "x").message == "x"
    harness.close()


def test_import_that_takes_long_says_what_is_being_imported(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    source = f"import time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"

    def let_it_go_on_once_told() -> bool:
        if any(event["event"] == "handlers_awaited" for event in harness.events):
            gate.touch()
        return False

    harness = SlotHarness(
        tmp_path, "import os\n" + source + SOURCE, is_unwanted=let_it_go_on_once_told
    )
    harness.open()
    harness.close()

    [told] = [event for event in harness.events if event["event"] == "handlers_awaited"]
    assert told["source"] == str(harness.file)
    assert told["seconds"] >= 5


def test_threads_of_c_libraries_that_an_import_started_are_warned_about(tmp_path: Path) -> None:
    source = """
import ctypes
libc = ctypes.CDLL(None)
waits = ctypes.cast(libc.pause, ctypes.c_void_p)
for _ in range(2):
    libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, waits, None)
"""
    harness = SlotHarness(tmp_path, source + SOURCE, count=1).open()
    finished = harness.run("quick", "still runs")
    harness.close()

    [warned] = [event for event in harness.events if event["event"] == "native_threads_left"]
    assert warned["count"] == 2
    assert finished.message == "still runs"


def test_what_an_earlier_boot_has_left_ends_before_the_next_one_starts(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    harness = SlotHarness(tmp_path, SOURCE, script_folder=scripts).open()
    harness.start("family")
    harness.turn(lambda: harness.note("begun"))
    [mark] = {
        environment[MARK]
        for pid in (harness.zygote.pid, *(process.pid for process in harness.job_processes()))
        if (environment := environment_of(pid))  # a spare may have ended meanwhile
    }
    harness.close()
    left = subprocess.Popen(["sleep", "60"], start_new_session=True, env={MARK: mark})
    others = subprocess.Popen(["sleep", "60"], env={MARK: f"{mark}-2"})

    again = SlotHarness(tmp_path, SOURCE, script_folder=scripts).open()

    assert left.poll() == -signal.SIGKILL
    assert others.poll() is None
    [told] = [event for event in again.events if event["event"] == "old_processes_ended"]
    assert told["names"] == ["sleep"]
    others.kill()
    others.wait()
    again.close()
