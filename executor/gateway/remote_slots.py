"""The slots of an executor that runs jobs remotely: calls start, stop and end its runs.

    start ──/run──> taken ──callback──────────────────────────────> finished
      │              │  └──timeout, kill──/kill──callback or grace──┘ │
      │              └──no proof for 120 s──> LOST ───────────────────┤
      ├──refused: FAILED ─────────────────────────────────────────────┤
      └──never arrived: not started ──────────────────────────────────┘

The start of a run is durable before `start` is called, and /run is called once, whatever happens.
Everything runs on the thread of one event loop; `has_run`, `has_ended` and `is_unneeded` may be
read from any thread. A watch asks whether the executor is up and its runs are still running. It may
be given runs while it registers and answers, and has not signed off.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from warren.broker.messages import Finished, NotStarted, Outcome, Trigger
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import to_json
from warren.executor.gateway import protocol
from warren.executor.gateway.protocol import CallFailed, NotSent, RemoteResult
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.gateway.remote_logs import RemoteLogs
from warren.executor.lanes.reporting import not_started
from warren.executor.processes.interface import SlotEvents, SlotPool
from warren.executor.processes.script_files import SETTING
from warren.executor.run_life import Stop, killed, timed_out
from warren.executor.run_logs import RunLogs

#: After this long without proof that it is still running, a run is LOST.
PROOF_SECONDS = 120.0
#: What pyxxl reports for a run that exceeded its timeout.
_TIMEOUT_WORDS = "TimeoutError"
#: After this long without a registration it is away; executors register every 10 to 30 s.
REGISTERED_SECONDS = 90.0
#: After this many unanswered beats in a row it is away.
MISSES = 3
#: The last expected time of an executor that signed off, in the past: a clock may stand still.
_MIN_AWAY_SECONDS = 0.001
#: How many ended runs of an executor are remembered: late results of others count as unknown.
ENDED_LIMIT = 10_000


def conclude(
    result: RemoteResult, stop: Stop | None, *, timeout_seconds: float, seconds: float
) -> tuple[Outcome, Words]:
    """Return outcome and message of a run that its executor called back after `seconds`."""
    if result.code == protocol.OK:
        return Outcome.SUCCEEDED, result.text
    if stop is not None:
        return stop.outcome, stop.words
    if result.code == protocol.TIMED_OUT:
        return Outcome.TIMED_OUT, result.text or timed_out(timeout_seconds).words
    if result.text == _TIMEOUT_WORDS and 0 < timeout_seconds <= seconds:
        return Outcome.TIMED_OUT, timed_out(timeout_seconds).words
    return Outcome.FAILED, result.text or Why.REMOTE_CODE(code=result.code)


def unanswered(stop: Stop, obstacle: str) -> tuple[Outcome, Words]:
    """Return outcome and message of a run that was stopped and has not called back."""
    if obstacle:
        return stop.outcome, Why.REMOTE_UNSTOPPED(stop=stop.words, fault=obstacle)
    return stop.outcome, Why.REMOTE_STOPPED(stop=stop.words)


def lost(url: str) -> tuple[Outcome, Words]:
    """Return outcome and message of a run without proof that it is still running."""
    return Outcome.LOST, Why.REMOTE_LOST(url=url, seconds=f"{PROOF_SECONDS:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The limits of a remote executor: `count` runs at a time, one of each job.

    Scripts in `script_languages` are sent, others are FAILED. A run that was asked to stop may call
    back until `stop_margin_seconds` after the grace time. The gateway stops a run itself
    `timeout_margin_seconds` after its timeout and grace time.
    """

    count: int
    grace_seconds: float
    script_languages: Collection[str]
    timeout_margin_seconds: float = 30.0
    stop_margin_seconds: float = 5.0
    #: How long an executor that signed off may take to come back, as after a restart.
    return_seconds: float = 15.0
    #: How long an executor may take to write the rest of a log after the end of its run.
    log_end_seconds: float = 1.0


@dataclass(slots=True, eq=False)
class RemoteRun:
    """A run, from before the call that starts it until its end.

    `started_at`, and `proven_at`, the last proof that it was running, are by the loop's clock.
    """

    trigger: Trigger
    started_at_ms: int
    started_at: float
    proven_at: float
    is_resumed: bool = False
    #: Whether a later run of its job has ended there, so that a busy job proves nothing.
    is_passed: bool = False
    stop: Stop | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def order_stop(self, stop: Stop) -> None:
        """Order it to stop; the first order counts."""
        self.stop = self.stop or stop
        self.stopped.set()

    async def until_stopped(self, seconds: float | None) -> bool:
        """Wait for an order to stop; return False if none came in time."""
        try:
            await asyncio.wait_for(self.stopped.wait(), seconds)
        except TimeoutError:
            return False
        return True


class Liveness:
    """The state of one remote executor. Used from one thread; `now` gives monotonic seconds."""

    def __init__(self, url: str, now: Callable[[], float]) -> None:
        self._url = url
        self._now = now
        self._expected_until = now() + REGISTERED_SECONDS
        self._has_signed_off = False
        self._misses = 0

    @property
    def away(self) -> Reason | None:
        """Why it gets no runs; None if it does."""
        if self._has_signed_off:
            return Why.REMOTE_SIGNED_OFF(url=self._url)
        if self.is_gone:
            return Why.REMOTE_UNREGISTERED(url=self._url)
        return Why.REMOTE_SILENT(url=self._url) if self._misses >= MISSES else None

    @property
    def is_gone(self) -> bool:
        """Whether it has signed off, or has not registered for REGISTERED_SECONDS."""
        return self.gone_seconds > 0

    @property
    def gone_seconds(self) -> float:
        """For how long it has been gone; 0 if it is there."""
        return max(0.0, self._now() - self._expected_until)

    def register(self) -> None:
        self._expected_until = self._now() + REGISTERED_SECONDS
        self._has_signed_off = False

    def sign_off(self) -> None:
        self._expected_until = min(self._expected_until, self._now() - _MIN_AWAY_SECONDS)
        self._has_signed_off = True

    def answered(self) -> None:
        self._misses = 0

    def missed(self) -> None:
        """Record that it did not answer a beat."""
        self._misses += 1

    def refused(self) -> None:
        """Record that it refused a connection: it is away until it answers."""
        self._misses = max(self._misses, MISSES)


#: Seconds between two beats; every PROOF_BEATS-th one looks for proof of each run.
BEAT_SECONDS = 5.0
PROOF_BEATS = 2
#: A job that no executor has: an executor that calls it busy does not support idleBeat.
NO_JOB = 2_147_483_647


class RemoteWatch:
    """Checks one remote executor at each beat. Used from the thread of one event loop.

    `runs` returns its runs, `now` the seconds of the loop's clock. `on_alive(run_id)` is called
    when a run may still be running, `on_lost(run)` after too long without proof of that, `on_ready`
    when the executor is back.
    """

    def __init__(
        self,
        client: RemoteClient,
        liveness: Liveness,
        runs: Callable[[], Iterable[RemoteRun]],
        *,
        now: Callable[[], float],
        on_alive: Callable[[int], None],
        on_lost: Callable[[RemoteRun], None],
        on_ready: Callable[[], None],
    ) -> None:
        self._client = client
        self._liveness = liveness
        self._runs = runs
        self._now = now
        self._on_alive = on_alive
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._can_ask_idleness: bool | None = None
        self._log = structlog.get_logger().bind(url=client.url.text)

    async def run(self) -> None:
        """Beat until this is cancelled."""
        beat = 0
        while True:
            try:
                await self.beat(is_proof_due=beat % PROOF_BEATS == 0)
            except Exception:  # noqa: BLE001 - the top of a loop
                self._log.exception("remote_watch_failed")
            beat += 1
            await asyncio.sleep(BEAT_SECONDS)

    async def beat(self, *, is_proof_due: bool) -> None:
        """Check that it is up and, if a proof is due, that each run is still running."""
        was_away = self._liveness.away is not None
        is_alive = await self._is_alive()
        if is_alive and self._can_ask_idleness is None:
            await self._try_idle_beat()
        if is_proof_due:
            proofs = [self._prove(run, is_alive=is_alive) for run in list(self._runs())]
            await asyncio.gather(*proofs)
        if was_away and self._liveness.away is None:
            self._log.info("remote_returned")
            self._on_ready()

    async def _is_alive(self) -> bool:
        was_away = self._liveness.away is not None
        try:
            is_alive = await self._client.is_alive()
        except CallFailed as error:
            self._liveness.missed()
            if not was_away and self._liveness.away is not None:
                self._log.warning("remote_missed", why=str(error))
            return False
        self._liveness.answered()
        return is_alive

    async def _try_idle_beat(self) -> None:
        try:
            self._can_ask_idleness = await self._client.is_idle(NO_JOB)
        except CallFailed:
            return
        if not self._can_ask_idleness:
            self._log.warning("remote_idleness_doubted")

    async def _prove(self, run: RemoteRun, *, is_alive: bool) -> None:
        """Check that a run is still running; after too long without proof it is LOST."""
        if is_alive:
            self._on_alive(run.trigger.run_id)
        if is_alive and not await self._is_over(run):
            run.proven_at = self._now()
        elif self._now() - run.proven_at > PROOF_SECONDS:
            self._on_lost(run)

    async def _is_over(self, run: RemoteRun) -> bool:
        if run.is_passed:
            return True
        return bool(self._can_ask_idleness) and await self._is_idle(run.trigger.job_id)

    async def _is_idle(self, job_id: int) -> bool:
        try:
            return await self._client.is_idle(job_id)
        except CallFailed:
            return True


class RemoteSlots(SlotPool):
    """The slots of one remote executor, which `client` calls."""

    is_remote = True

    def __init__(
        self,
        client: RemoteClient,
        limits: RemoteLimits,
        run_logs: RunLogs,
        *,
        loop: asyncio.AbstractEventLoop,
        events: SlotEvents,
        script_folder: Path,  # noqa: ARG002 - scripts are sent as they are
        notes_folder: Path | None = None,  # noqa: ARG002 - there are no job processes
    ) -> None:
        self._loop = loop
        self._client = client
        self._limits = limits
        self._events = events
        self._url = client.url.text
        self._liveness = Liveness(self._url, loop.time)
        self._runs: dict[int, RemoteRun] = {}
        #: The latest runs that have ended, oldest first.
        self._ended: dict[int, None] = {}
        self._logs = RemoteLogs(loop, client, run_logs, end_seconds=limits.log_end_seconds)
        self._watch = RemoteWatch(
            client,
            self._liveness,
            self._runs.values,
            now=loop.time,
            on_alive=self._logs.refresh,
            on_lost=self._lose,
            on_ready=events.ready,
        )
        self._watching: asyncio.Task[None] | None = None
        self._log = structlog.get_logger().bind(url=self._url)

    # -- for the executor ---------------------------------------------------------------------

    @property
    def free(self) -> int:
        return max(0, self._limits.count - len(self._runs)) if self.away is None else 0

    @property
    def away(self) -> Reason | None:
        """Why runs are neither taken nor started for now; None if they are."""
        return self._liveness.away

    def open(self) -> tuple[str, ...]:
        """Start watching the remote executor; only it knows its handlers."""
        self._watching = self._loop.create_task(self._watch.run())
        return ()

    def start(self, trigger: Trigger, *_others: Trigger) -> None:
        """Start a run, whose start is durable; any failure is reported as its end."""
        if not self.free or trigger.run_id in self._runs:
            raise RuntimeError(f"expected run {trigger.run_id} to be new and a slot to be free")
        self._attend(trigger, int(time.time() * 1000))

    def resume(self, trigger: Trigger, started_at_ms: int, age_seconds: float) -> None:
        """Continue a run that an earlier process started."""
        self._attend(trigger, started_at_ms, age_seconds, is_resumed=True)

    def stop(self, run_id: int, why: Words) -> bool:
        """Stop a run, which then finishes KILLED; return False if it is not running."""
        run = self._runs.get(run_id)
        if run is not None:
            run.order_stop(killed(why))
        return run is not None

    def refresh_log(self, run_id: int, then: Callable[[], None]) -> None:
        """Call `then` when the log of a run is copied, or takes too long."""
        self._logs.read(run_id, then)

    def has_late_log(self, run_id: int) -> bool:
        """Whether the log of a run that has ended is not copied to its end yet."""
        return self._logs.is_late(run_id)

    def cut_off(self, run_id: int) -> bool:
        """Do nothing: a remote run outlives its executor. Returns as `stop`."""
        return run_id in self._runs

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":  # noqa: ARG002 - nothing ends
        """Leave the runs alone; the future is done when the last logs are copied, calls ended."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        if self._watching is not None:
            tasks.append(self._watching)
        return self._loop.create_task(self._close(tasks))

    # -- for the gateway ----------------------------------------------------------------------

    def has_run(self, run_id: int) -> bool:
        """Whether a run was started there and has not ended."""
        return run_id in self._runs

    def has_ended(self, run_id: int) -> bool:
        """Whether it had a run that has ended, as far as it remembers."""
        return run_id in self._ended

    def register(self) -> None:
        was_away = self.away is not None
        self._liveness.register()
        if was_away and self.away is None:
            self._events.ready()

    def sign_off(self) -> None:
        self._log.info("remote_signed_off")
        self._liveness.sign_off()

    @property
    def is_unneeded(self) -> bool:
        """Whether the remote executor stays away and has no run left."""
        return self._liveness.gone_seconds > self._limits.return_seconds and not self._runs

    def post(self, call: Callable[..., None], *values: Any) -> bool:
        """Call a method on the slots' thread; from any thread. Return False if it has ended."""
        try:
            self._loop.call_soon_threadsafe(call, *values)
        except RuntimeError:
            return False
        return True

    def call_back(self, result: RemoteResult, on_recorded: Callable[[], None]) -> None:
        """End a run as its executor reports; the first report counts."""
        run = self._runs.get(result.run_id)
        if run is None:
            self._log.info("remote_callback_ignored", run_id=result.run_id, code=result.code)
            on_recorded()
            return
        outcome, words = conclude(
            result,
            run.stop,
            timeout_seconds=run.trigger.timeout_seconds,
            seconds=self._loop.time() - run.started_at,
        )
        for other in self._runs.values():  # one from another gateway may be running beside it
            if other.trigger.job_id == run.trigger.job_id and other.started_at < run.started_at:
                other.is_passed = True
        self._finish(run, outcome, words, on_recorded)

    # -- a run's life -------------------------------------------------------------------------

    def _attend(
        self, trigger: Trigger, at_ms: int, age_seconds: float = 0.0, *, is_resumed: bool = False
    ) -> None:
        now = self._loop.time()
        run = RemoteRun(trigger, at_ms, now - age_seconds, now, is_resumed=is_resumed)
        self._runs[trigger.run_id] = run
        self._logs.begin(trigger, is_resumed=is_resumed)
        run.task = self._loop.create_task(self._accompany(run))

    async def _accompany(self, run: RemoteRun) -> None:
        """Start a run and make sure that it ends."""
        try:
            is_there = run.is_resumed or await self._begin(run)
        except Exception:  # noqa: BLE001 - it may be running, so a kill must be able to end it
            self._log.exception("remote_run_failed", run_id=run.trigger.run_id)
            is_there = True
        if is_there:
            await self._end_in_time(run)

    async def _begin(self, run: RemoteRun) -> bool:
        is_there = await self._call_run(run)
        if is_there:
            self._events.started(run.trigger.run_id)
        return is_there

    async def _end_in_time(self, run: RemoteRun) -> None:
        """End a run when it is stopped, or takes too long."""
        if not await run.until_stopped(self._seconds_left(run)):
            run.order_stop(timed_out(run.trigger.timeout_seconds))
        obstacle = await self._call_kill(run)
        await asyncio.sleep(self._limits.grace_seconds + self._limits.stop_margin_seconds)
        assert run.stop is not None
        self._finish(run, *unanswered(run.stop, obstacle))

    async def _call_run(self, run: RemoteRun) -> bool:
        """Call /run; return whether the run may be running now."""
        try:
            if (refusal := self._refusal(run.trigger)) is not None:
                self._finish(run, Outcome.FAILED, refusal, was_taken=False)
                return False
            answer = await self._client.run(protocol.order_of(run.trigger))
        except NotSent as error:
            self._liveness.refused()
            why = Why.REMOTE_UNREACHED(url=self._url, fault=str(error))
            self._end(run, not_started(run.trigger, why))
            return False
        except CallFailed as error:
            self._log.warning("remote_start_unanswered", run_id=run.trigger.run_id, why=str(error))
            return True
        if not answer.is_ok:
            words = answer.text or f"code {answer.code}"
            why = Why.REMOTE_REFUSED(url=self._url, words=words)
            self._finish(run, Outcome.FAILED, why, was_taken=False)
        return answer.is_ok

    def _refusal(self, trigger: Trigger) -> Reason | None:
        language = trigger.script_language
        if not language or language in self._limits.script_languages:
            return None
        return Why.REMOTE_SCRIPTS_OFF(language=language, url=self._url, setting=SETTING)

    def _seconds_left(self, run: RemoteRun) -> float | None:
        """Return how long a run may still take; None for no limit."""
        if not run.trigger.timeout_seconds:
            return None
        limits = self._limits
        margin = limits.grace_seconds + limits.timeout_margin_seconds
        longest = run.trigger.timeout_seconds + margin
        return max(0.0, run.started_at + longest - self._loop.time())

    async def _call_kill(self, run: RemoteRun) -> str:
        """Call /kill; return why it failed, or an empty text."""
        try:
            answer = await self._client.kill(run.trigger.job_id)
        except CallFailed as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the run has to end, whatever is wrong
            self._log.exception("remote_run_failed", run_id=run.trigger.run_id)
            return repr(error)
        return "" if answer.is_ok else answer.text or f"it answered code {answer.code}"

    def _finish(
        self,
        run: RemoteRun,
        outcome: Outcome,
        words: Words,
        on_recorded: Callable[[], None] | None = None,
        *,
        was_taken: bool = True,
    ) -> None:
        if run.trigger.run_id not in self._runs:
            return
        finished = Finished(
            run_id=run.trigger.run_id,
            boot_id=run.trigger.boot_id,
            outcome=outcome,
            message=str(words),
            why=to_json(words),
            started_at_ms=run.started_at_ms if was_taken else 0,
            finished_at_ms=int(time.time() * 1000),
            log_tail=self._logs.tail(run.trigger.run_id),
        )
        self._end(run, finished, on_recorded)

    def _lose(self, run: RemoteRun) -> None:
        self._finish(run, *lost(self._url))

    def _end(
        self,
        run: RemoteRun,
        end: Finished | NotStarted,
        on_recorded: Callable[[], None] | None = None,
    ) -> None:
        if self._runs.pop(end.run_id, None) is None:
            return
        self._ended[end.run_id] = None
        if len(self._ended) > ENDED_LIMIT:
            del self._ended[next(iter(self._ended))]
        if run.task is not None and run.task is not asyncio.current_task(self._loop):
            run.task.cancel()
        self._logs.finish(end.run_id)
        self._events.finished(end, on_recorded)

    async def _close(self, tasks: list["asyncio.Task[None]"]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._logs.close()
        await self._client.close()
