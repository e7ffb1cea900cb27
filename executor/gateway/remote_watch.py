"""Watches a remote executor: whether it is up, and whether its runs are still running.

It may be given runs while it registers and answers, and has not signed off.
"""

import asyncio
from collections.abc import Callable, Iterable

import structlog

from warren.broker.reasons.codes import Reason, Why
from warren.executor.gateway.protocol import CallFailed
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.gateway.remote_run import PROOF_SECONDS, RemoteRun

#: After this long without a registration it is away; executors register every 10 to 30 s.
REGISTERED_SECONDS = 90.0
#: After this many unanswered beats in a row it is away.
MISSES = 3
#: How far in the past an executor that signed off was expected last: a clock may stand still.
_MIN_AWAY_SECONDS = 0.001


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
        """Record that it registered."""
        self._expected_until = self._now() + REGISTERED_SECONDS
        self._has_signed_off = False

    def sign_off(self) -> None:
        """Record that it signed off."""
        self._expected_until = min(self._expected_until, self._now() - _MIN_AWAY_SECONDS)
        self._has_signed_off = True

    def answered(self) -> None:
        """Record that it answered."""
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
#: A job that no executor has: an executor that calls it busy cannot be asked by idleBeat.
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
        if is_alive and not (self._can_ask_idleness and await self._is_idle(run.trigger.job_id)):
            run.proven_at = self._now()
        elif self._now() - run.proven_at > PROOF_SECONDS:
            self._on_lost(run)

    async def _is_idle(self, job_id: int) -> bool:
        try:
            return await self._client.is_idle(job_id)
        except CallFailed:
            return True
