"""Brings the results that executors report to the runs they belong to, and into their journals."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Mapping, Sequence

import structlog

from warren.executor.gateway.protocol import RemoteResult
from warren.executor.gateway.remote import Key, Remote

#: How long a callback may wait for the journal.
RECORD_SECONDS = 5.0
#: For how long to refuse a result whose run is unknown, so that other gateways are asked.
OFFERED_SECONDS = 300.0
#: The most unknown runs of which it is remembered since when their results are offered.
OFFERED_LIMIT = 100_000

log = structlog.get_logger()


class Callbacks:
    """Records results of the runs that these executors have. Used from one event loop."""

    def __init__(self, remotes: Mapping[Key, Remote], record_seconds: float) -> None:
        self._remotes = remotes
        self._record_seconds = record_seconds
        #: Runs whose results are on their way into a journal, and the executors that have the runs.
        self._recording: dict[int, tuple[Key, asyncio.Future[bool]]] = {}
        #: Since when (monotonic seconds) results of unknown runs are offered, oldest first.
        self._offered: dict[int, float] = {}

    async def record(
        self, apps: Collection[str], results: Sequence[RemoteResult]
    ) -> tuple[list[RemoteResult], bool]:
        """End runs of these apps; return the results of unknown runs once the others are recorded.

        Also return whether those all were. Results of runs that have ended are ignored.
        """
        unknown = []
        recorded = []
        for result in results:
            if (future := self._record(apps, result)) is not None:
                recorded.append(future)
            elif not self._has_ended(apps, result):
                unknown.append(result)
        if not recorded:
            return unknown, True
        done, pending = await asyncio.wait(recorded, timeout=self._record_seconds)
        return unknown, not pending and all(each.result() for each in done)

    def is_given_up(self, result: RemoteResult) -> bool:
        """Whether the result of an unknown run has been offered for so long that nobody has it."""
        now = time.monotonic()
        since = self._offered.setdefault(result.run_id, now)
        if now - since < OFFERED_SECONDS:
            if len(self._offered) > OFFERED_LIMIT:
                del self._offered[next(iter(self._offered))]
            return False
        log.warning("remote_callback_dropped", run_id=result.run_id, code=result.code)
        return True

    def forget(self, key: Key) -> None:
        """Stop waiting for the journal of an executor that has ended."""
        for run_id in [run_id for run_id, (whose, _) in self._recording.items() if whose == key]:
            del self._recording[run_id]

    def _record(self, apps: Collection[str], result: RemoteResult) -> "asyncio.Future[bool] | None":
        """Return whether a result will have been recorded; None if no executor here has its run.

        A result that is repeated before the first is recorded waits for that one: the run has
        ended, but a crash would bring it back.
        """
        under_way = self._recording.get(result.run_id)
        if under_way is not None and under_way[0][0] in apps:
            return under_way[1]
        key = self._holder_of(apps, result.run_id)
        if key is None:
            return None
        loop = asyncio.get_running_loop()
        recorded: asyncio.Future[bool] = loop.create_future()

        def note() -> None:
            if not recorded.done():
                recorded.set_result(True)

        def note_safely() -> None:
            with contextlib.suppress(RuntimeError):  # the gateway has ended
                loop.call_soon_threadsafe(note)

        if self._remotes[key].call_back(result, note_safely):
            self._offered.pop(result.run_id, None)
            self._recording[result.run_id] = key, recorded
            recorded.add_done_callback(lambda _: self._recording.pop(result.run_id, None))
        else:
            recorded.set_result(False)
        return recorded

    def _has_ended(self, apps: Collection[str], result: RemoteResult) -> bool:
        """Whether an executor here had the run, which has ended."""
        has_ended = any(
            key[0] in apps and remote.has_ended(result.run_id)
            for key, remote in self._remotes.items()
        )
        if has_ended:
            log.info("remote_callback_ignored", run_id=result.run_id, code=result.code)
        return has_ended

    def _holder_of(self, apps: Collection[str], run_id: int) -> Key | None:
        holders = (
            key
            for key, remote in self._remotes.items()
            if key[0] in apps and remote.has_run(run_id)
        )
        return next(holders, None)
