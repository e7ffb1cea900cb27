"""What a run changes in its process is put back, nothing else is touched."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.executor.fork_server.process_state import RUN_MARK, ProcessState


@pytest.fixture
def process_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ProcessState]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEPT", "as it was")
    monkeypatch.setenv(RUN_MARK, "0")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    umask = os.umask(0o027)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield ProcessState()
    os.umask(umask)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_environment_is_put_back(process_state: ProcessState) -> None:
    path = os.environ["PATH"]
    os.environ["KEPT"] = "changed"
    os.environ["ADDED"] = "new"
    del os.environ["PATH"]

    process_state.restore()

    assert (os.environ["KEPT"], os.environ["PATH"]) == ("as it was", path)
    assert "ADDED" not in os.environ


def test_changed_resource_limit_is_noticed(process_state: ProcessState) -> None:
    process_state.remember_limits()
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    assert not process_state.has_other_limits()

    resource.setrlimit(resource.RLIMIT_CORE, (1 if soft == 0 and hard != 0 else 0, hard))

    assert process_state.has_other_limits() == (hard != 0)
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def test_mark_names_the_run_and_outlives_the_restoring(process_state: ProcessState) -> None:
    process_state.mark(17)
    os.environ["KEPT"] = "changed"
    process_state.restore()

    assert os.environ[RUN_MARK] == "17"
    assert os.environ["KEPT"] == "as it was"


def test_mark_that_the_run_removed_comes_back(process_state: ProcessState) -> None:
    process_state.mark(17)
    del os.environ[RUN_MARK]
    process_state.restore()
    process_state.mark(18)

    assert os.environ[RUN_MARK] == "18"


@pytest.mark.parametrize("timer", [signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF])
def test_timer_is_stopped(process_state: ProcessState, timer: int) -> None:
    signal.setitimer(timer, 1_000, 1_000)

    process_state.restore()

    assert signal.getitimer(timer) == (0, 0)


def test_folder_is_put_back(process_state: ProcessState, tmp_path: Path) -> None:
    os.chdir("/")

    process_state.restore()

    assert Path.cwd() == tmp_path


def test_folder_that_is_gone_is_no_error(process_state: ProcessState, tmp_path: Path) -> None:
    os.chdir("/")
    tmp_path.rmdir()

    process_state.restore()

    assert Path.cwd() == Path("/")
    tmp_path.mkdir()


def test_umask_is_put_back(process_state: ProcessState) -> None:
    os.umask(0o777)

    process_state.restore()

    assert os.umask(0o027) == 0o027


def test_signals_are_put_back(process_state: ProcessState) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    signal.setitimer(signal.ITIMER_REAL, 1000)

    process_state.restore()

    assert signal.getsignal(signal.SIGUSR1) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_signal_that_was_taken_stays_taken(process_state: ProcessState) -> None:
    seen: list[int] = []
    process_state.take_signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    process_state.restore()
    signal.raise_signal(signal.SIGUSR1)

    assert seen == [signal.SIGUSR1]
