"""Job processes are of `multiprocessing`: each is seen for itself, none costs a descriptor."""

import errno
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import util
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

from benchmarks.starts.costs import measure
from warren.executor.fork_server import linux
from warren.executor.fork_server.forking import Forker, discard


@contextmanager
def no_file_left_open() -> Iterator[None]:
    """Check that no descriptor is open at the end that was not open before.

    What earlier tests of this process left behind may be closed meanwhile, and its number used
    again: so descriptors are told apart by what they are open on, too.
    """
    before = what_is_open()
    yield
    assert what_is_open() - before == set()


def what_is_open() -> set[tuple[int, str]]:
    return {
        (fd, str(Path(f"/proc/self/fd/{fd}").readlink()))
        for fd in linux.open_files()
        if os.path.lexists(f"/proc/self/fd/{fd}")
    }


@pytest.fixture
def forker() -> Iterator[Forker]:
    with no_file_left_open():
        forker = Forker()
        yield forker
        forker.close()
        gc.unfreeze()


def end_with(code: int) -> None:
    os._exit(code)


def code_of(forker: Forker, code: object) -> int | None:
    """Return the exit code of a process that ends with what `code()` gives."""
    assert callable(code)
    process = forker.start(lambda: end_with(code()))
    exit_code = process.wait()
    process.close()
    return exit_code


def test_a_job_process_is_one_of_multiprocessing(forker: Forker) -> None:
    def is_one() -> bool:
        return isinstance(multiprocessing.current_process(), ForkProcess)

    assert code_of(forker, is_one) == 1


def test_it_knows_itself_and_its_parent(forker: Forker) -> None:
    def knows() -> bool:
        own, parent = multiprocessing.current_process(), multiprocessing.parent_process()
        assert parent is not None
        return own.pid == os.getpid() and parent.pid == os.getppid() and parent.is_alive()

    assert code_of(forker, knows) == 1


def test_what_it_is_given_is_done_and_its_code_is_told(forker: Forker) -> None:
    assert code_of(forker, lambda: 3) == 3


def test_one_that_lives_has_no_code_and_one_that_was_killed_a_negative_one(forker: Forker) -> None:
    process = forker.start(signal.pause)

    alive = process.poll()
    process.kill()

    assert (alive, process.wait(), process.poll()) == (None, -signal.SIGKILL, -signal.SIGKILL)
    process.close()


def test_one_that_raises_never_goes_on_with_its_parents_code(
    forker: Forker, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise ValueError("not mine")

    code = code_of(forker, fail)

    assert code == 1
    assert "ValueError: not mine" in capfd.readouterr().err


def test_its_collector_leaves_alone_what_was_made_before_it(forker: Forker) -> None:
    made_before = [[]]

    count = code_of(forker, lambda: sum(one is made_before for one in gc.get_objects()))

    assert count == 0


def test_what_multiprocessing_was_told_to_do_after_a_fork_is_done(forker: Forker) -> None:
    class Thing:
        was_forked = False

    thing = Thing()
    util.register_after_fork(thing, lambda one: setattr(one, "was_forked", True))

    code = code_of(forker, lambda: 10 + thing.was_forked)

    assert code == 11
    assert not thing.was_forked


def test_children_of_the_parent_are_not_its_own(forker: Forker) -> None:
    sibling = forker.start(signal.pause)

    count = code_of(forker, lambda: len(multiprocessing.active_children()))

    discard(sibling)
    assert count == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_method_that_the_handlers_chose_is_kept(
    forker: Forker, method: str, request: pytest.FixtureRequest
) -> None:
    chosen = multiprocessing.get_start_method(allow_none=True)
    request.addfinalizer(lambda: multiprocessing.set_start_method(chosen, force=True))
    multiprocessing.set_start_method(method, force=True)

    code = code_of(forker, lambda: multiprocessing.get_start_method() == method)

    assert code == 1


def test_fork_that_fails_leaves_no_file_open(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, "no room")

    with no_file_left_open(), monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        with pytest.raises(OSError, match="no room"):
            forker.start(signal.pause)


def test_process_that_cannot_be_watched_is_ended(
    forker: Forker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def refuse(pid: int) -> int:
        pids.append(pid)
        raise OSError(errno.EMFILE, "too many files")

    with no_file_left_open(), monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)
        with pytest.raises(OSError, match="too many files"):
            forker.start(signal.pause)

    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)


def test_process_holds_one_file_and_its_end_shows_there(forker: Forker) -> None:
    before = len(linux.open_files())
    process = forker.start(signal.pause)

    held = len(linux.open_files()) - before
    process.kill()

    assert held == 1
    assert multiprocessing.connection.wait([process.pidfd], timeout=30) == [process.pidfd]
    discard(process)


NEW_IN_GAPS = """
import sys
from warren.executor.fork_server.forking import settle_memory
made = [bytes(100) for _ in range(20_000)]
del made[::40]  # what was freed lies between what was not, on all these pages
if sys.argv[1:]:
    settle_memory()
new = [bytes(100) for _ in range(30)]
print(len({id(one) // 4_096 for one in new}))
"""


def test_what_is_made_once_memory_has_settled_lies_together() -> None:
    def pages(*words: str) -> int:
        command = [sys.executable, "-c", NEW_IN_GAPS, *words]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert pages() > 20
    assert pages("settled") <= 3


def test_a_start_touches_few_more_pages_than_one_of_a_process_that_does_nothing() -> None:
    theirs, ours = measure(10)

    assert min(cost.faults for cost in ours) < 1.65 * min(cost.faults for cost in theirs)
