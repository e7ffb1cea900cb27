"""`try_handler` runs one handler on the spot, as an executor would."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.processes import processes_with_env
from warren.executor.handlers.handler_registry import HandlersError
from warren.executor.processes.trial import try_handler

SOURCE = r"""
import asyncio, os, subprocess, sys, time
from warren import job, JobStopped

seen, kept = [], []

@job("greet")
def greet(context):
    print("hello", context.param, context.shard_index, context.shard_total)
    return "greeted"

@job("situation")
def situation(context):
    return f"{context.kind} {context.attempt} {context.scheduled_at.isoformat()}"

@job("boom")
def boom(context):
    raise ValueError("text")

@job("replaces.log")
def replaces_log(context):
    log = os.readlink("/proc/self/fd/1")
    os.unlink(log)
    os.mkfifo(log)

@job("counts")
def counts(context):
    seen.append(os.getpid())
    print("pid", os.getpid())
    if context.param == str(len(seen)):
        raise ValueError("bad turn")
    if context.param == "dies":
        os._exit(3)
    return f"time {len(seen)} here"

@job("keeps")
async def keeps(context):
    kept.append(asyncio.get_running_loop())
    await asyncio.sleep(0)
    return str(kept[0] is kept[-1])

@job("slow")
def slow(context):
    try:
        print("begun", flush=True)
        mark = {"MARK": context.param}
        child = subprocess.Popen(["sleep", "60"], start_new_session=True, env=mark)
        time.sleep(60)
    except JobStopped:
        print("cleaned up")
"""

SCRIPT = """
import sys
from warren.executor.processes.trial import try_handler

if __name__ == "__main__":
    sys.exit(try_handler(sys.argv[1], sys.argv[2], sys.argv[3], 0, 1, 0, sys.stdout, 2))
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "handlers_to_try.py"
    path.write_text(SOURCE)
    return str(path)


def test_output_and_result_are_shown(source: str) -> None:
    out = io.StringIO()

    status = try_handler(source, "greet", "ann", 1, 3, 0, out)

    assert status == 0
    words = r"hello ann 1 3\nSUCCEEDED after \d+\.\d{3} s: greeted\n"
    assert re.fullmatch(words, out.getvalue())


def test_a_run_may_be_as_if_at_another_time_and_a_retry(source: str) -> None:
    command = [sys.executable, "-m", "warren", "try", source, "situation"]
    options = ["--at", "2026-12-01T02:00+01:00", "--attempt", "2", "--kind", "retry"]

    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    wrong = subprocess.run([*command, "--at", "soon"], capture_output=True, text=True, check=False)

    assert done.stdout.endswith(": RETRY 2 2026-12-01T01:00:00+00:00\n"), done.stderr
    assert "expected --at to be a time like 2026-12-01T08:00, got: 'soon'" in wrong.stderr


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ("boom", "FAILED after"),
        ("boom", "ValueError: text"),
        ("unknown", "no handler named 'unknown' here"),
    ],
)
def test_failure_is_shown_and_is_the_exit_status(source: str, handler: str, words: str) -> None:
    out = io.StringIO()

    assert try_handler(source, handler, "", 0, 1, 0, out) == 1
    assert words in out.getvalue()


def test_handler_that_replaces_its_log_by_a_fifo_is_not_waited_for(source: str) -> None:
    out = io.StringIO()

    assert try_handler(source, "replaces.log", "", 0, 1, 0, out) == 0
    assert out.getvalue().endswith(" s: (its log is missing: Not a regular file)\n")


def test_timeout_ends_the_run(source: str) -> None:
    out = io.StringIO()

    assert try_handler(source, "slow", "", 0, 1, 3, out) == 1
    assert out.getvalue().startswith("begun\ncleaned up\nTIMED_OUT after")


def outcomes(shown: str) -> list[tuple[str, str]]:
    return re.findall(r"^(run \d of \d: \w+) after \d+\.\d{3} s(.*)$", shown, re.MULTILINE)


def test_several_runs_follow_each_other_in_one_job_process(source: str) -> None:
    out = io.StringIO()

    status = try_handler(source, "counts", "", 0, 1, 0, out, 3)

    assert status == 0
    assert outcomes(out.getvalue()) == [
        ("run 1 of 3: SUCCEEDED", ": time 1 here"),
        ("run 2 of 3: SUCCEEDED", ": time 2 here"),
        ("run 3 of 3: SUCCEEDED", ": time 3 here"),
    ]
    assert len(set(re.findall(r"^pid (\d+)$", out.getvalue(), re.MULTILINE))) == 1


def test_one_failure_of_several_runs_is_the_exit_status_and_the_others_follow(source: str) -> None:
    out = io.StringIO()

    assert try_handler(source, "counts", "2", 0, 1, 0, out, 3) == 1
    assert outcomes(out.getvalue()) == [
        ("run 1 of 3: SUCCEEDED", ": time 1 here"),
        ("run 2 of 3: FAILED", ": ValueError: bad turn"),
        ("run 3 of 3: SUCCEEDED", ": time 3 here"),
    ]


def test_a_run_that_ends_its_process_is_followed_by_one_in_another(source: str) -> None:
    out = io.StringIO()

    assert try_handler(source, "counts", "dies", 0, 1, 0, out, 2) == 1
    words = ": ended with exit code 3 without a result"
    assert outcomes(out.getvalue()) == [
        ("run 1 of 2: FAILED", words),
        ("run 2 of 2: FAILED", words),
    ]


def test_several_runs_of_an_async_handler_share_an_event_loop(source: str) -> None:
    out = io.StringIO()

    assert try_handler(source, "keeps", "", 0, 1, 0, out, 2) == 0
    assert [words for _, words in outcomes(out.getvalue())] == [": True", ": True"]


def test_traceback_is_shown_once(source: str) -> None:
    out = io.StringIO()

    try_handler(source, "boom", "", 0, 1, 0, out)

    assert out.getvalue().count("Traceback") == 1
    assert out.getvalue().endswith(": ValueError: text\n")


def test_handlers_that_cannot_be_loaded_raise_with_their_traceback(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def inner():\n    raise KeyError('deep')\ninner()\n")
    out = io.StringIO()

    with pytest.raises(HandlersError) as caught:
        try_handler(str(path), "any", "", 0, 1, 0, out)

    assert "in inner" in caught.value.traceback
    assert caught.value.line == f"cannot load handlers from '{path}': KeyError: 'deep'"
    assert not out.getvalue()


def test_ctrl_c_stops_the_run_with_all_that_it_started_and_starts_no_other(
    source: str, tmp_path: Path
) -> None:
    mark = f"trial-{time.time_ns()}"

    with started_trial(tmp_path, source, "slow", mark) as trial:
        assert trial.stdout is not None
        shown = _read_until(trial, "begun")
        eventually(lambda: processes_with_env("MARK", mark))
        trial.send_signal(signal.SIGINT)
        rest, _ = trial.communicate(timeout=60)

    assert trial.returncode == 1
    assert "begun" in shown
    assert "cleaned up\nrun 1 of 2: KILLED after" in rest
    assert "run 2" not in rest
    assert rest.endswith("stopped by SIGINT\n")
    assert not processes_with_env("MARK", mark)


@contextmanager
def started_trial(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    script = folder / "trial_of_test.py"
    script.write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, str(script), *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as trial:
        yield trial


def _read_until(trial: "subprocess.Popen[str]", word: str) -> str:
    assert trial.stdout is not None
    shown = ""
    while word not in shown:
        line = trial.stdout.readline()
        assert line, f"ended without {word!r}: {shown}"
        shown += line
    return shown


#: Python since 3.14 (gh-146313): a process that is forked closes what its maker's tracker wrote to.
AS_PYTHON_3_14 = """
import contextlib, os
from multiprocessing import resource_tracker

tracker = resource_tracker._resource_tracker

def close():
    if tracker._fd is not None:
        with contextlib.suppress(OSError):
            os.close(tracker._fd)
        tracker._fd = None

os.register_at_fork(after_in_child=close)
"""


def test_what_python_closes_in_each_fork_is_not_the_job_process_channel(
    source: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(AS_PYTHON_3_14)

    done = subprocess.run(
        [sys.executable, "-m", "warren", "try", source, "greet"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "SUCCEEDED" in done.stdout, done
