"""Runs one handler here and now, without any service: the command `warren try`."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from broker.messages import Finished, Outcome, Trigger
from executor.runlog import RunLogs
from executor.slots import Slots

#: Seconds between two looks at what the run has printed.
_LOOK_SECONDS = 0.05
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
    """Run a handler once, as an executor would; write its output to `out` as it comes.

    Ctrl-C stops the run. `timeout` is in seconds, 0 for none. Returns the exit status: 0 when the
    run succeeded, 1 when it did not.

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
    slots = Slots(
        loop=loop,
        sources=[source],
        count=1,
        run_logs=logs,
        grace_seconds=_GRACE_SECONDS,
        on_started=lambda _run_id, _at_ms: None,
        on_finished=done.set_result,
    )
    slots.open()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, slots.stop, _RUN_ID, f"stopped by {number.name}")
    started = time.monotonic()
    slots.start(trigger)
    show = _shower(Path(logs.path_of(trigger.scheduled_at_ms, _RUN_ID)), out)
    while not done.done():
        show()
        await asyncio.wait([done], timeout=_LOOK_SECONDS)
    finished = done.result()
    show()
    await slots.close(_GRACE_SECONDS)
    has_succeeded = finished.outcome is Outcome.SUCCEEDED
    # A traceback has been shown already, as the end of what the run printed.
    told = finished.message if has_succeeded else finished.message.partition("\n")[0]
    message = f": {told}" if told else ""
    out.write(f"{finished.outcome} after {time.monotonic() - started:.3f} s{message}\n")
    out.flush()
    return 0 if has_succeeded else 1


def _shower(path: Path, out: TextIO) -> Callable[[], None]:
    """Return a function that writes what a file has got since it was called last."""
    shown = 0

    def show() -> None:
        nonlocal shown
        try:
            with path.open("rb") as file:
                file.seek(shown)
                data = file.read()
        except FileNotFoundError:
            return
        shown += len(data)
        out.write(data.decode(errors="replace"))
        out.flush()

    return show
