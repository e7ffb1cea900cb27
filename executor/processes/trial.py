"""Runs one handler without starting any services, for the command `warren try`."""

import asyncio
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import msgspec

from warren.broker.messages import CallEnd, Finished, NotStarted, Outcome, Trigger
from warren.broker.reasons import Why
from warren.executor.disk import open_regular
from warren.executor.fork_server.frames import Await, Call
from warren.executor.handlers.hooks import JobCode
from warren.executor.processes.interface import SlotEvents, SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs

#: Seconds between two reads of the run's output.
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 5.0
#: The hook that shows failures in a debugger.
_POST_MORTEM = "warren.executor.handlers.post_mortem"


def try_handler(  # noqa: PLR0917 - the command's own arguments, in its order
    source: str,
    handler: str,
    param: str,
    shard_index: int,
    shard_total: int,
    timeout: float,
    out: TextIO,
    runs: int = 1,
    *,
    kind: str = "MANUAL",
    attempt: int = 0,
    scheduled_at_ms: int | None = None,
    run_date: str = "",
    terminal: str = "",
    is_post_mortem: bool = False,
    check_param: Callable[[str, str], None] = lambda _schema, _param: None,
    results: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Run a handler `count` times, as an executor would; write the output to `out` as it appears.

    The runs follow each other in one job process, unless one of them ends it. Ctrl-C stops the run
    and starts no other. `timeout` is in seconds, 0 for none; without `scheduled_at_ms`, the runs
    are due now. `run_date` is YYYY-MM-DD; empty = that day in UTC. `breakpoint()` stops on the
    `terminal`, if one is named, and a failure too if it `is_post_mortem`. `check_param` gets the
    JSON Schema of the handler's params, if it has one, and the param; what it raises ends the trial
    before the first run. `results` are those of called runs, by job, as JSON. Returns the exit
    status: 0 if all runs succeeded, otherwise 1.

    Raises:
        HandlersError: the handlers cannot be loaded.

    """
    trigger = Trigger(
        run_id=1,
        job_id=1,
        boot_id="trial",
        kind=kind,
        attempt=attempt,
        handler=handler,
        param=param,
        shard_index=shard_index,
        shard_total=shard_total,
        scheduled_at_ms=int(time.time() * 1000) if scheduled_at_ms is None else scheduled_at_ms,
        run_date=run_date,
        timeout_seconds=timeout,
    )
    with tempfile.TemporaryDirectory(prefix="warren-try-") as folder, asyncio.Runner() as runner:
        hooks = (_POST_MORTEM,) if is_post_mortem else ()
        code = JobCode(sources=(source,), hooks=hooks, terminal=terminal)
        trial = _Trial(code, RunLogs(Path(folder)), out, runner.get_loop(), results=results)
        return runner.run(_try(trial, trigger, runs, check_param))


async def _try(
    trial: "_Trial", trigger: Trigger, runs: int, check_param: Callable[[str, str], None]
) -> int:
    if schema := trial.schema_of(trigger.handler):
        try:
            check_param(schema, trigger.param)
        except ValueError:
            await trial.close()
            raise
    ends = []
    for number in range(1, runs + 1):
        await trial.wait_for_slot()
        if trial.is_stopped:
            break
        label = f"run {number} of {runs}: " if runs > 1 else ""
        ends.append(await trial.run(msgspec.structs.replace(trigger, run_id=number), label))
    await trial.close()
    return 0 if len(ends) == runs and set(ends) <= {Outcome.SUCCEEDED, Outcome.SKIPPED} else 1


class _Trial:
    """The slot of a trial: one run at a time, each shown while it is running."""

    def __init__(
        self,
        code: JobCode,
        logs: RunLogs,
        out: TextIO,
        loop: asyncio.AbstractEventLoop,
        *,
        results: Mapping[str, str],
    ) -> None:
        self._results = results
        self._logs = logs
        self._out = out
        self._loop = loop
        self._run_id = 0
        self._done: asyncio.Future[Finished] = loop.create_future()
        self._ready = asyncio.Event()
        self._slots = Slots(
            code,
            logs,
            SlotOptions(count=1, grace_seconds=_GRACE_SECONDS),
            loop=loop,
            events=SlotEvents(
                lambda _run_id: None,
                self._finish,
                self._ready.set,
                called=self._note_call,
                awaited=self._result_of,
            ),
        )
        self.is_stopped = False
        self._slots.open()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop, number.name)

    def schema_of(self, handler: str) -> str:
        """Return the JSON Schema of a handler's params; "" = it has none."""
        return self._slots.schema_of(handler)

    async def wait_for_slot(self) -> None:
        """Wait until the next run can start, or none is to start any more."""
        while not self._slots.free and not self.is_stopped:
            self._ready.clear()
            await self._ready.wait()  # a run has killed the zygote

    async def run(self, trigger: Trigger, label: str) -> Outcome:
        """Run once; write its output, then a line with how it ended."""
        self._run_id, self._done = trigger.run_id, self._loop.create_future()
        started = time.monotonic()
        self._slots.start(trigger)
        path = self._logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
        show = _make_printer(Path(path), self._out)
        while not self._done.done():
            show()
            await asyncio.wait([self._done], timeout=_POLL_SECONDS)
        show()
        finished = self._done.result()
        has_succeeded = finished.outcome is Outcome.SUCCEEDED
        # The traceback has been shown already, at the end of the run's output.
        shown = finished.message if has_succeeded else finished.message.partition("\n")[0]
        message = f": {shown}" if shown else ""
        seconds = time.monotonic() - started
        self._out.write(f"{label}{finished.outcome} after {seconds:.3f} s{message}\n")
        self._out.flush()
        return finished.outcome

    async def close(self) -> None:
        """End the job process."""
        await self._slots.close(_GRACE_SECONDS)

    def _stop(self, signal_name: str) -> None:
        self.is_stopped = True
        self._ready.set()
        self._slots.stop(self._run_id, Why.STOPPED_BY_SIGNAL(signal=signal_name))

    def _note_call(self, call: Call, then: Callable[[], None]) -> None:
        param = "its own param" if call.param is None else f"param {call.param}"
        self._out.write(f"called, but not run in a trial: job {call.job} with {param}\n")
        then()

    def _result_of(self, call: Await) -> CallEnd:
        result = self._results.get(call.job)
        if result is None:
            words = f"nothing runs in a trial: give its result by --result {call.job}=…"
            return CallEnd(status=Outcome.REFUSED, message=words)
        return CallEnd(run_id=1, status=Outcome.SUCCEEDED, is_fine=True, result=result)

    def _finish(
        self,
        end: Finished | NotStarted,
        on_recorded: object = None,  # noqa: ARG002 - the interface's
    ) -> None:
        assert isinstance(end, Finished)
        self._done.set_result(end)


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
