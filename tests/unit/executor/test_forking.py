"""Forking: a process that is seen for itself by the libraries, and reaped by its own id."""

import multiprocessing
import os
import signal
from multiprocessing import util

import pytest

from executor.forking import exit_code, fork
from tests.support.eventually import eventually


def end_with(code: int) -> None:
    os._exit(code)


def code_of(pid: int) -> int:
    codes: list[int] = []

    def look() -> bool:
        found = exit_code(pid)
        if found is not None:
            codes.append(found)
        return bool(codes)

    eventually(look)
    return codes[0]


def test_a_fork_does_what_it_is_given_and_its_code_is_told() -> None:
    assert code_of(fork(lambda: end_with(3))) == 3  # type: ignore[arg-type]


def test_a_fork_that_lives_has_no_code_and_one_that_was_killed_a_negative_one() -> None:
    read, write = os.pipe()
    pid = fork(lambda: os.read(read, 1))  # type: ignore[arg-type]

    alive = exit_code(pid)
    os.kill(pid, signal.SIGKILL)

    assert alive is None
    assert code_of(pid) == -signal.SIGKILL
    os.close(read)
    os.close(write)


def test_a_fork_that_raises_never_goes_on_with_its_parents_code(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise ValueError("not mine")

    code = code_of(fork(fail))  # type: ignore[arg-type]

    assert code == 1
    assert "ValueError: not mine" in capfd.readouterr().err


def test_what_multiprocessing_was_told_to_do_after_a_fork_is_done() -> None:
    class Thing:
        was_forked = False

    thing = Thing()
    util.register_after_fork(thing, lambda one: setattr(one, "was_forked", True))

    code = code_of(fork(lambda: end_with(10 + thing.was_forked)))  # type: ignore[arg-type]

    assert code == 11
    assert not thing.was_forked


def test_children_of_the_parent_are_not_the_forks() -> None:
    multiprocessing.active_children()
    child = multiprocessing.get_context("fork").Process(target=signal.pause)
    child.start()

    count = code_of(fork(lambda: end_with(len(multiprocessing.active_children()))))  # type: ignore[arg-type]
    child.kill()
    child.join()

    assert count == 0
