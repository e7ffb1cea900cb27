"""How a run ends and what is said of it, with real processes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slot_harness import SCHEDULED_AT_MS, SlotHarness
from warren.broker.messages import MESSAGE_LIMIT, Outcome

SOURCE = """
from warren import Retry, RetryLater
import asyncio, logging, os, signal, subprocess, sys, threading, time

@job("echo")
def echo(context: JobContext) -> str:
    return context.param

@job
def bare_name(context):
    return "bare"

@job("context")
def show_context(context):
    fields = ("job_id", "run_id", "attempt", "kind", "param", "shard_index", "shard_total")
    return [getattr(context, each) for each in fields] + [context.scheduled_at.isoformat()]

@job("nothing")
def nothing(context):
    pass

@job("number")
def number(context):
    return 42

@job("returns")
def returns(context):
    value = {"rows": 3, "of": context.param}
    if context.param == "failed":
        try:
            context.fail("after all")
        except Exception:
            pass
    return value if context.param != "later" else asyncio.sleep(0, value)

@job("async")
async def asynchronous(context):
    await asyncio.sleep(0.001)
    return "awaited " + context.param

async def _numbers():
    yield 1

@job("unrun")
async def unrun(context):
    return {"coroutine": asynchronous(context), "generator": (x for x in []), "async": _numbers()}[
        context.param
    ]

@job("async.boom")
async def async_boom(context):
    await asyncio.sleep(0)
    raise LookupError("in a coroutine")

@job("fail")
def fail(context):
    context.fail("no rows today")

class Wrong(Exception):
    pass

class Worse(Wrong):
    pass

@job("retry", retry=Retry(3, never=Wrong))
def retry(context):
    if context.param == "later":
        raise RetryLater("5m", "the feed is late")
    if context.param == "useless":
        context.fail("no such day", retry=False)
    if context.param == "useless.and.goes.on":
        try:
            context.fail("no such day", retry=False)
        except Exception:
            raise OSError
    raise {"never": Worse, "fails": OSError}[context.param]

@job("skip")
def skip(context):
    try:
        context.skip("holiday")
    except Exception:
        if context.param:
            raise ValueError("and then this")

@job("counts")
def count(context):
    for number in range(1, 1001):
        context.progress(number, 1000, "a long\\n way " * 100)
    try:
        context.progress(-1)
    except ValueError as error:
        return str(error)

@job("detaches")
def detaches(context):
    work = subprocess.Popen(["sleep", "60"], start_new_session=True)
    while not open(f"/proc/{work.pid}/cmdline").read().startswith("sleep"):
        pass
    return "on its way"

@job("fails.and.goes.on")
def fails_and_goes_on(context):
    try:
        context.fail("no rows today")
    except Exception:
        if context.param == "raise":
            raise ValueError("and then this")
    return "all is well"

@job("boom")
def boom(context):
    raise ValueError("text")

@job("silent.boom")
def silent_boom(context):
    raise ValueError

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")

@job("mute")
def mute(context):
    raise Mute

class Wordless:
    def __str__(self):
        raise RuntimeError("no text")

@job("wordless")
def wordless(context):
    return Wordless()

class Marked(str):
    def __str__(self):
        return self

@job("marked")
def marked(context):
    return Marked("<b>done</b>")

@job("marked.fail")
def marked_fail(context):
    context.fail(Marked("<b>no rows</b>"))

@job("unpicklable")
def unpicklable(context):
    class Local(Exception):
        def __init__(self):
            super().__init__(lambda: None, threading.Lock())
    raise Local

@job("long")
def long(context):
    return "x" * 200_000

@job("long.boom")
def long_boom(context):
    raise ValueError("y" * 200_000)

@job("surrogate")
def surrogate(context):
    return os.fsdecode(b"caf\\xe9")

@job("os.exit")
def os_exit(context):
    os._exit(int(context.param))

@job("sys.exit")
def sys_exit(context):
    sys.exit(eval(context.param))

@job("memory")
def memory(context):
    raise MemoryError

@job("recursion")
def recursion(context):
    recursion(context)

@job("signal")
def by_signal(context):
    os.kill(os.getpid(), int(context.param))
    time.sleep(10)

@job("segfault")
def segfault(context):
    import ctypes
    ctypes.string_at(0)

@job("abort")
def abort(context):
    os.abort()

@job("interrupt")
def interrupt(context):
    raise KeyboardInterrupt

@job("exec")
def run_other_program(context):
    os.execv("/bin/sh", ["sh", "-c", context.param])

@job("close.all")
def close_all(context):
    os.closerange(0, 1000)
    return "lost"

@job("fork.returns")
def fork_returns(context):
    if os.fork() == 0:
        return "from the copy"
    os.wait()
    return "from the original"

@job("fork.raises")
def fork_raises(context):
    if os.fork() == 0:
        raise ValueError("from the copy")
    os.wait()
    return "from the original"

@job("logs")
def logs(context):
    print("printed")
    context.log("said %s of %d", 1, 2)
    context.log("100% without arguments")
    context.log("does not fit: %d", "x")
    logging.getLogger("app").info("logged")
    logging.getLogger("app").debug("not shown")
    sys.stderr.write("complained\\n")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "from a child process"])
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotHarness]:
    harness = SlotHarness(tmp_path_factory.mktemp("runs"), SOURCE).open()
    yield harness
    harness.close()


def test_returned_text_is_the_message(harness: SlotHarness) -> None:
    before = int(time.time() * 1000)

    finished = harness.run("echo", "grüße\n√")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "grüße\n√")
    assert finished.boot_id == "boot"
    assert before <= finished.started_at_ms <= finished.finished_at_ms <= time.time() * 1000
    assert finished.run_id in harness.started


def test_handler_that_returns_nothing_has_succeeded(harness: SlotHarness) -> None:
    finished = harness.run("nothing")

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "")


@pytest.mark.parametrize(
    ("param", "may_retry", "seconds"),
    [
        ("fails", True, None),
        ("later", True, 300.0),
        ("useless", False, None),
        ("useless.and.goes.on", False, None),
        ("never", False, None),
    ],
)
def test_a_failure_says_whether_and_when_it_may_be_retried(
    harness: SlotHarness, param: str, may_retry: bool, seconds: float | None
) -> None:
    finished = harness.run("retry", param)

    assert finished.outcome is Outcome.FAILED
    assert (finished.may_retry, finished.retry_seconds) == (may_retry, seconds)


@pytest.mark.parametrize("param", ["", "raise"])
def test_a_run_is_skipped_whatever_its_handler_does_afterwards(
    harness: SlotHarness, param: str
) -> None:
    finished = harness.run("skip", param)

    assert (finished.outcome, finished.message) == (Outcome.SKIPPED, "holiday")


def test_the_progress_of_a_run_is_told_at_most_once_a_second(harness: SlotHarness) -> None:
    finished = harness.run("counts")

    first, *more = harness.progress[finished.run_id]
    assert (first.done, first.total) == (1, 1000)
    assert first.text == ("a long way " * 100)[:200]
    assert len(more) < 500
    assert finished.message == "expected progress from 0, of a total above 0, got: -1 of None"


def test_megabyte_of_parameter_arrives(harness: SlotHarness) -> None:
    param = "p" * 1_000_000

    finished = harness.run("echo", param)

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message.startswith("p" * 40_000)
    assert finished.message.endswith("[cut, 1,000,000 characters]")


def test_context_tells_everything_of_the_run(harness: SlotHarness) -> None:
    finished = harness.run("context", "p", attempt=2, kind="RETRY", shard_index=1, shard_total=3)

    expected = [7, finished.run_id, 2, "RETRY", "p", 1, 3, "2023-11-14T22:13:20.500000+00:00"]
    assert finished.message == str(expected)
    assert SCHEDULED_AT_MS % 1000 == 500


@pytest.mark.parametrize(
    ("handler", "param", "message"),
    [
        ("bare_name", "", "bare"),
        ("number", "", "42"),
        ("async", "p", "awaited p"),
        ("sys.exit", "0", ""),
        ("sys.exit", "None", ""),
        ("surrogate", "", "caf\\udce9"),
        ("marked", "", "<b>done</b>"),
        ("fork.returns", "", "from the original"),
        ("fork.raises", "", "from the original"),
    ],
)
def test_run_succeeds(harness: SlotHarness, handler: str, param: str, message: str) -> None:
    finished = harness.run(handler, param)

    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, message)


@pytest.mark.parametrize(
    ("handler", "param", "message"),
    [
        ("fail", "", "no rows today"),
        ("marked.fail", "", "<b>no rows</b>"),
        ("unknown", "", "no handler named 'unknown' here"),
        ("os.exit", "0", "ended with exit code 0 without a result"),
        ("os.exit", "3", "ended with exit code 3 without a result"),
        ("sys.exit", "3", "sys.exit(3)"),
        ("sys.exit", "'words'", "words"),
        ("segfault", "", "SIGSEGV (signal 11)"),
        ("abort", "", "SIGABRT (signal 6)"),
        ("signal", "9", "SIGKILL (signal 9)"),
        ("signal", "1", "SIGHUP (signal 1)"),
        ("signal", "64", "SIGRTMAX (signal 64)"),
        ("signal", "15", "stopped by SIGTERM"),
        ("unrun", "coroutine", "the coroutine that its handler returned has not run"),
        ("unrun", "generator", "the generator that its handler returned has not run"),
        ("unrun", "async", "the async generator that its handler returned has not run"),
        ("exec", "exit 0", "ended with exit code 0 without a result"),
        ("exec", "exit 7", "ended with exit code 7 without a result"),
        ("close.all", "", "ended with exit code 0 without a result"),
    ],
)
def test_run_fails_with_these_words(
    harness: SlotHarness, handler: str, param: str, message: str
) -> None:
    finished = harness.run(handler, param)

    assert (finished.outcome, finished.message) == (Outcome.FAILED, message)


@pytest.mark.parametrize(
    ("handler", "headline"),
    [
        ("boom", "ValueError: text"),
        ("silent.boom", "ValueError"),
        ("async.boom", "LookupError: in a coroutine"),
        ("mute", "handlers_of_test.Mute: <no text: its str() fails>"),
        ("wordless", "the returned Wordless has no text"),
        ("memory", "MemoryError: out of memory"),
        ("interrupt", "KeyboardInterrupt"),
        ("recursion", "RecursionError: maximum recursion depth exceeded"),
    ],
)
def test_exception_is_told_by_its_last_line_and_its_traceback(
    harness: SlotHarness, handler: str, headline: str
) -> None:
    finished = harness.run(handler)

    assert finished.outcome is Outcome.FAILED
    assert finished.message.splitlines()[0].startswith(headline)
    assert "handlers_of_test.py" in finished.message
    assert "executor/fork_server/job_main.py" not in finished.message
    assert "Traceback" in harness.log_of(finished.run_id)


def test_exception_that_cannot_be_pickled_is_told(harness: SlotHarness) -> None:
    finished = harness.run("unpicklable")

    assert finished.outcome is Outcome.FAILED
    assert "unpicklable.<locals>.Local: (<function" in finished.message.splitlines()[0]


@pytest.mark.parametrize("how", ["at once", "later"])
def test_what_a_handler_returns_is_its_result(harness: SlotHarness, how: str) -> None:
    finished = harness.run("returns", how)

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == f"{{'rows': 3, 'of': '{how}'}}"
    assert finished.result == f'{{"rows":3,"of":"{how}"}}'


def test_a_run_that_failed_or_returned_nothing_has_no_result(harness: SlotHarness) -> None:
    failed, silent = harness.run("returns", "failed"), harness.run("nothing")

    assert (failed.outcome, failed.message, failed.result) == (Outcome.FAILED, "after all", "")
    assert (silent.outcome, silent.result) == (Outcome.SUCCEEDED, "")


@pytest.mark.parametrize("handler", ["long", "long.boom"])
def test_long_message_is_cut_with_a_mark(harness: SlotHarness, handler: str) -> None:
    finished = harness.run(handler)

    assert len(finished.message) == MESSAGE_LIMIT
    assert finished.message.endswith(" characters]")


def test_crash_in_c_leaves_its_python_lines_in_the_log(harness: SlotHarness) -> None:
    finished = harness.run("segfault")

    assert "Fatal Python error: Segmentation fault" in harness.log_of(finished.run_id)
    assert "in segfault" in finished.log_tail


def test_script_is_refused_where_none_are_allowed(harness: SlotHarness) -> None:
    finished = harness.run("", script_language="shell", script_source="exit 0")

    assert finished.outcome is Outcome.FAILED
    assert finished.message == "scripts are not allowed here: WARREN_GLUE is off"


def test_whatever_is_written_lands_in_the_log_in_its_order(harness: SlotHarness) -> None:
    finished = harness.run("logs")

    lines = harness.log_of(finished.run_id).splitlines()
    assert [line[30:] if line.startswith("20") else line for line in lines] == [
        "printed",
        "INFO said 1 of 2",
        "INFO 100% without arguments",
        "INFO does not fit: %d ('x',)",
        "INFO logged",
        "complained",
        "written",
        "from a child process",
    ]
    assert finished.log_tail == harness.log_of(finished.run_id)


def test_run_is_neither_told_nor_refused_before_start_returns(harness: SlotHarness) -> None:
    unknown, known = harness.start("unknown"), harness.start("echo")

    assert harness.slots.running == {unknown, known}
    assert not {unknown, known} & harness.finished.keys()
    harness.wait(unknown)
    harness.wait(known)
    assert not harness.slots.running


def test_run_without_a_free_slot_is_a_mistake_of_the_caller(harness: SlotHarness) -> None:
    first, second = harness.start("echo"), harness.start("echo")

    assert harness.slots.free == 0
    with pytest.raises(RuntimeError, match="to be new and a slot to be free"):
        harness.start("echo")

    harness.wait(first)
    harness.wait(second)
    assert harness.slots.free == 2


def test_slot_is_free_again_when_its_end_is_told(tmp_path: Path) -> None:
    harness = SlotHarness(tmp_path, SOURCE, count=1).open()
    seen: list[int] = []
    harness.at_finish = lambda: seen.append(harness.slots.free)

    for handler in ("echo", "boom", "os.exit", "unknown"):
        harness.run(handler, "1")

    assert seen == [1, 1, 1, 1]
    harness.close()


@pytest.mark.parametrize("then", ["return", "raise"])
def test_run_that_was_failed_by_its_handler_has_failed_whatever_follows(
    harness: SlotHarness, then: str
) -> None:
    finished = harness.run("fails.and.goes.on", param=then)

    assert (finished.outcome, finished.message) == (Outcome.FAILED, "no rows today")
    assert harness.run("fails.and.goes.on", param=then).outcome is Outcome.FAILED


def test_message_names_the_work_that_a_handler_left_running(harness: SlotHarness) -> None:
    finished = harness.run("detaches")

    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.message == "on its way (ended 1 process that it left running: sleep)"
