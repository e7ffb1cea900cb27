"""Hooks around runs, in real job processes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.messages import Outcome
from warren.executor.handlers.handler_registry import HandlersError

SOURCE = """
import logging
from warren import RetryLater

@job("works")
async def works(context):
    print("at work")
    logging.getLogger("acme").debug("in detail")
    return "12 rows"

@job("fails")
def fails(context):
    raise ValueError("bad rows")

@job("skips")
def skips(context):
    context.skip("holiday")

@job("later")
def later(context):
    raise RetryLater("5m")
"""
HOOKS = """
from warren import around_run

@around_run
def outer(context):
    print("outer before", context.attempt)
    end = yield
    print("outer after", end.outcome, end.message.splitlines()[0], type(end.error).__name__)

@around_run
def inner(context):
    print("inner before")
    yield
    print("inner after")
"""
BROKEN = """
from warren import around_run

@around_run
def early(context):
    raise RuntimeError("too early")
    yield

@around_run
def late(context):
    yield
    raise RuntimeError("too late")

@around_run
def silent(context):
    if context is None:
        yield

@around_run
def chatty(context):
    yield
    yield
"""
#: As much of Sentry's SDK as the hook uses.
SENTRY = """
import contextlib
ready = False

def is_initialized():
    return ready

def init():
    global ready
    ready = True

class Scope:
    def set_tag(self, name, value):
        print("tag", name, value)

@contextlib.contextmanager
def isolation_scope():
    yield Scope()

def capture_exception(error):
    print("captured", type(error).__name__, error)

def flush(timeout):
    print("flushed")
"""

Start = Callable[..., SlotHarness]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    harnesses = []

    def make(modules: dict[str, str], *names: str, **options: Any) -> SlotHarness:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        harness = SlotHarness(tmp_path, SOURCE, hooks=names, **options)
        harness.open()
        harnesses.append(harness)
        return harness

    yield make
    for one in harnesses:
        one.close()


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ("works", ["SUCCEEDED 12 rows NoneType"]),
        ("fails", ["FAILED ValueError: bad rows ValueError"]),
        ("skips", ["SKIPPED holiday JobSkipped"]),
    ],
)
def test_hooks_see_a_run_and_how_it_ended(start: Start, handler: str, words: list[str]) -> None:
    harness = start({"acme_hooks": HOOKS}, "acme_hooks")

    lines = harness.run(handler, attempt=2).log_tail.splitlines()

    assert lines[:2] == ["outer before 2", "inner before"]
    assert lines[-2:] == ["inner after", f"outer after {words[0]}"]


def test_what_a_hook_raises_is_logged_and_changes_nothing(start: Start) -> None:
    harness = start({"broken_hooks": BROKEN}, "broken_hooks")

    finished = harness.run("works")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "12 rows")
    for words in (
        "hook early failed: RuntimeError: too early",
        "hook late failed: RuntimeError: too late",
        "hook silent failed: RuntimeError: it did not yield",
        "hook chatty failed: RuntimeError: it yielded twice",
    ):
        assert words in finished.log_tail


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "'acme_hooks' declares no hook; declare one with @around_run"),
        ("import nowhere", "cannot load hooks from 'acme_hooks': ModuleNotFoundError"),
        (
            "from warren import around_run\n@around_run\ndef f(context): pass",
            "expected hook f to be a function of one argument that yields once",
        ),
    ],
)
def test_hooks_that_cannot_be_loaded_are_told_in_one_line(
    start: Start, source: str, words: str
) -> None:
    with pytest.raises(HandlersError) as refused:
        start({"acme_hooks": source}, "acme_hooks")

    assert words in refused.value.line


def test_sentry_hears_of_failures_only(start: Start) -> None:
    harness = start({"sentry_sdk": SENTRY}, "warren.contrib.sentry")

    failed = harness.run("fails").log_tail
    others = [harness.run(name).log_tail for name in ("works", "skips", "later")]

    assert "captured ValueError bad rows" in failed
    assert "flushed" in failed
    assert "tag warren.run_id" in failed
    assert not [tail for tail in others if "captured" in tail]


@pytest.mark.parametrize(("level", "is_logged"), [("debug", True), ("info", False)])
def test_the_level_of_log_records_can_be_set(start: Start, level: str, is_logged: bool) -> None:
    harness = start({}, log_level=level)

    assert ("DEBUG in detail" in harness.run("works").log_tail) == is_logged
