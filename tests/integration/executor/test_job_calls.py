"""Runs that call runs of other jobs, with real processes: each waits until its call is kept."""

from collections.abc import Iterator

import pytest

from tests.support.slot_harness import SlotHarness
from warren.broker.messages import CallEnd, Outcome
from warren.executor.fork_server.frames import Call

SOURCE = """
import os, signal, threading
from dataclasses import dataclass

@dataclass
class Order:
    id: int
    note: str = ""

@job("calls")
def calls(context: JobContext) -> str:
    context.call("mail")
    context.call("pack", Order(7, "a note"))
    context.call("ship", param="caf\\udce9")
    return "called"

@job("calls.async")
async def asynchronous(context):
    context.call("mail", {"to": [1, 2]})
    return "called"

@job("calls.wrongly")
def wrongly(context):
    said = []
    for job, params, param in (
        ("", None, None), ("x" * 256, None, None), (7, None, None), ("mail", 1, "1"),
        ("mail", object(), None), ("mail", None, "x" * 65_537), ("mail", None, 7),
    ):
        try:
            context.call(job, params, param=param)
        except (TypeError, ValueError) as error:
            said.append(str(error)[:200])
    return said

@job("calls.often")
def often(context):
    for _ in range(1_001):
        context.call("mail")

@job("calls.threads")
def threads(context):
    workers = [threading.Thread(target=context.call, args=("mail", n)) for n in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return "called"

@job("calls.fork")
def fork(context):
    pid = os.fork()
    if pid == 0:
        try:
            context.call("mail")
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
    return "called by nobody"

@job("dies")
def dies(context):
    if context.param == "die":
        os.read = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    context.call("mail")
    return "lived"

@job("awaits")
def awaits(context):
    from warren import CallFailed
    try:
        return context.call("mail").result()
    except CallFailed as failed:
        return f"{failed} ({failed.status}, {failed.run_id})"

@job("awaits.apart")
async def apart(context):
    import asyncio
    asyncio.get_running_loop().run_in_executor(None, context.call("mail").result)
    await asyncio.sleep(0.05)
    return str(os.getpid())

@job("awaits.briefly")
def briefly(context):
    try:
        context.call("mail").result(timeout=0.01)
    except TimeoutError as error:
        return str(error)

@job("waits")
def waits(context):
    if context.param:
        context.call(context.param)
    return context.param
"""


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlotHarness]:
    folder = tmp_path_factory.mktemp("calls")
    # However long a run has to wait, its process goes on with the runs that it was assigned early.
    harness = SlotHarness(folder, SOURCE, batch_seconds=600).open()
    yield harness
    harness.close()


@pytest.fixture(autouse=True)
def _forgotten(harness: SlotHarness) -> None:
    harness.called.clear()
    harness.ends.clear()
    harness.then_kept = True


def test_calls_are_told_in_order_with_their_params(harness: SlotHarness) -> None:
    finished = harness.run("calls")

    run_id = finished.run_id
    assert (finished.outcome, finished.message) == (Outcome.SUCCEEDED, "called")
    assert harness.called == [
        Call(run_id=run_id, number=1, job="mail"),
        Call(run_id=run_id, number=2, job="pack", param='{"id":7,"note":"a note"}'),
        Call(run_id=run_id, number=3, job="ship", param="caf\\udce9"),
    ]


def test_an_async_handler_calls_too(harness: SlotHarness) -> None:
    assert harness.run("calls.async").message == "called"

    assert [call.param for call in harness.called] == ['{"to":[1,2]}']


def test_a_run_goes_on_only_once_its_call_is_kept(harness: SlotHarness) -> None:
    harness.then_kept = False
    run_id = harness.start("calls.async")
    harness.turn(lambda: harness.called)
    for _ in range(20):
        harness.turn(lambda: True)
    assert run_id not in harness.finished

    harness.keep_all()

    assert harness.wait(run_id).message == "called"


def test_a_run_that_waits_for_its_call_leaves_its_slot_to_others(harness: SlotHarness) -> None:
    waiting = [harness.start("awaits") for _ in range(2)]
    harness.turn(lambda: harness.slots.free == 2)
    assert harness.run("calls").message == "called"
    assert not set(waiting) & set(harness.finished)

    harness.ends["mail"] = CallEnd(run_id=9, status="SUCCEEDED", is_fine=True, result='{"n":3}')

    assert [harness.wait(run_id).result for run_id in waiting] == ['{"n":3}'] * 2
    harness.turn(lambda: harness.slots.free == 2)


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            CallEnd(run_id=9, status="FAILED", message="no such day"),
            "run 9 of job mail FAILED: no such day (FAILED, 9)",
        ),
        (
            CallEnd(status="REFUSED", message="that job is stopped"),
            "the call of job mail was refused: that job is stopped (REFUSED, 0)",
        ),
    ],
)
def test_a_call_without_success_raises_where_it_is_waited_for(
    harness: SlotHarness, end: CallEnd, message: str
) -> None:
    harness.ends["mail"] = end

    assert harness.run("awaits").message == message


def test_a_wait_that_a_run_leaves_behind_disturbs_no_later_run(harness: SlotHarness) -> None:
    finished = [harness.run("awaits.apart") for _ in range(3)]

    assert [one.outcome for one in finished] == [Outcome.SUCCEEDED] * 3
    harness.turn(lambda: harness.slots.free == 2)


def test_a_wait_that_takes_too_long_gives_its_slot_back(harness: SlotHarness) -> None:
    finished = harness.run("awaits.briefly")

    assert finished.message == "the run of job mail is not over after 0.01 s"
    harness.turn(lambda: harness.slots.free == 2)


def test_wrong_calls_raise_and_say_what_is_wrong(harness: SlotHarness) -> None:
    message = harness.run("calls.wrongly").message

    assert harness.called == []
    for words in (
        "expected job to be a name of 1 to 255 characters, got: ''",
        "expected job and param to be texts, got: 7",
        "expected params or param, got: both",
        "expected params that JSON can hold, got: ",
        "expected a param of up to 65536 bytes, got: 65537",
    ):
        assert words in str(message)


def test_a_run_calls_a_thousand_times_at_most(harness: SlotHarness) -> None:
    finished = harness.run("calls.often")

    assert "expected at most 1000 calls of a run, got: another" in str(finished.message)
    assert [call.number for call in harness.called] == list(range(1, 1_001))


def test_threads_call_one_after_the_other(harness: SlotHarness) -> None:
    assert harness.run("calls.threads").message == "called"

    assert sorted(str(call.param) for call in harness.called) == sorted(map(str, range(20)))
    assert sorted(call.number for call in harness.called) == list(range(1, 21))


def test_a_forked_child_cannot_call(harness: SlotHarness) -> None:
    finished = harness.run("calls.fork")

    assert finished.message == "called by nobody"
    assert "expected the handler's own process to call, got: a forked one" in finished.log_tail
    assert harness.called == []


def test_a_run_killed_while_it_waits_for_its_call_has_begun(harness: SlotHarness) -> None:
    assert harness.run("dies", "live").message == "lived"
    harness.called.clear()

    finished = harness.run("dies", "die")

    assert finished.outcome is Outcome.FAILED
    assert len(harness.called) == 1  # it did not start once more, in another process


def test_orders_that_come_while_a_run_waits_are_not_lost(harness: SlotHarness) -> None:
    harness.run("waits")
    harness.then_kept = False
    run_ids = harness.start_batch("waits", ["mail", "", ""])
    harness.turn(lambda: harness.called)

    harness.keep_all()

    assert [harness.wait(run_id).message for run_id in run_ids] == ["mail", "", ""]
