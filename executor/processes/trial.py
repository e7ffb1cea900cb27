"""Runs one handler once without starting any services, for the command `warren try`."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why
from warren.executor.logs.run_logs import RunLogs
from warren.executor.processes.interface import SlotEvents
from warren.executor.processes.slot_options import SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.regular_files import open_regular

#: Seconds between two reads of the run's output.
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 5.0
_RUN_ID = 1


def try_handler(  # noqa: PLR0917 - the command's own arguments, in its order
    source: str,
    handler: str,
    param: str,
    shard_index: int,
    shard_total: int,
    timeout: float,
    out: TextIO,
) -> int:
    """Run a handler once, as an executor would; write its output to `out` as it appears.

    Ctrl-C stops the run. `timeout` is in seconds, 0 for none. Returns the exit status: 0 if the run
    succeeded, otherwise 1.

    Raises:
        HandlersError: the handlers cannot be loaded.

    """
    trigger = Trigger(
        run_id=_RUN_ID,
        job_id=1,
        boot_id="trial",
        kind="MANUAL",
        handler=handler,
        param=param,
        shard_index=shard_index,
        shard_total=shard_total,
        scheduled_at_ms=int(time.time() * 1000),
        timeout_seconds=timeout,
    )
    with tempfile.TemporaryDirectory(prefix="warren-try-") as folder, asyncio.Runner() as runner:
        return runner.run(_try(source, trigger, RunLogs(Path(folder)), out))


async def _try(source: str, trigger: Trigger, logs: RunLogs, out: TextIO) -> int:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Finished] = loop.create_future()

    def finish(
        end: Finished | NotStarted,
        on_recorded: object = None,  # noqa: ARG001 - the interface's
    ) -> None:
        assert isinstance(end, Finished)
        done.set_result(end)

    slots = Slots(
        [source],
        logs,
        SlotOptions(count=1, grace_seconds=_GRACE_SECONDS),
        loop=loop,
        events=SlotEvents(lambda _run_id: None, finish, lambda: None),
    )
    slots.open()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(
            number, slots.stop, _RUN_ID, Why.STOPPED_BY_SIGNAL(signal=number.name)
        )
    started = time.monotonic()
    slots.start(trigger)
    show = _make_printer(Path(logs.path_of(trigger.scheduled_at_ms, _RUN_ID)), out)
    while not done.done():
        show()
        await asyncio.wait([done], timeout=_POLL_SECONDS)
    finished = done.result()
    show()
    await slots.close(_GRACE_SECONDS)
    has_succeeded = finished.outcome is Outcome.SUCCEEDED
    # The traceback has been shown already, at the end of the run's output.
    shown = finished.message if has_succeeded else finished.message.partition("\n")[0]
    message = f": {shown}" if shown else ""
    out.write(f"{finished.outcome} after {time.monotonic() - started:.3f} s{message}\n")
    out.flush()
    return 0 if has_succeeded else 1


def _make_printer(path: Path, out: TextIO) -> Callable[[], None]:
    """Return a function that writes what was added to a file since its last call."""
    shown = 0

    def show() -> None:
        nonlocal shown
        try:
            with open(path, "rb", opener=open_regular) as file:
                file.seek(shown)
                data = file.read()
        except OSError:
            return
        shown += len(data)
        out.write(data.decode(errors="replace"))
        out.flush()

    return show
