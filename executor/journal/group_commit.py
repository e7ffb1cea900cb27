"""Delays effects until the journal is durable; changes within a few milliseconds share one sync."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from warren.executor.errors import JournalFailed
from warren.executor.journal.run_states import RunStates

Effect = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CommitPace:
    """How quickly commits follow one another: each blocks the loop for as long as the disk takes.

    `gather_seconds` is the shortest time between two commits, `retry_seconds` the delay before a
    failed one is repeated.
    """

    gather_seconds: float = 0.005
    retry_seconds: float = 1.0


_PACE = CommitPace()


class GroupCommit:
    """Commits the run states at the end of a loop iteration, then performs the effects in order.

    Soon after a commit, the next one waits a little, to gather more changes.

    When the journal cannot be written, `on_failing(True)` is called, and `on_failing(False)` once
    it can be written again; effects that need durability wait until then.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_states: RunStates,
        log: structlog.typing.FilteringBoundLogger,
        on_failing: Callable[[bool], None],
        pace: CommitPace = _PACE,
    ) -> None:
        self._loop = loop
        self._run_states = run_states
        self._log = log
        self._on_failing = on_failing
        self._pace = pace
        self._durable: list[Effect] = []
        self._tried: list[Effect] = []
        self._is_scheduled = False
        self._not_before = 0.0
        self._retry: asyncio.TimerHandle | None = None
        self.is_failing = False

    def when_durable(self, effect: Effect) -> None:
        """Perform an effect once all changes so far are durable."""
        self._durable.append(effect)
        self.schedule()

    def after_commit_attempt(self, effect: Effect) -> None:
        """Perform an effect after the next commit, even if that fails.

        For reports of finished runs: if this process dies while the disk is full, the run is later
        reported LOST too, but the first report counts.
        """
        self._tried.append(effect)
        self.schedule()

    def schedule(self) -> None:
        """Commit the changes so far soon."""
        if not self._is_scheduled:
            self._is_scheduled = True
            if self._loop.time() < self._not_before:
                self._loop.call_at(self._not_before, self.commit)
            else:
                self._loop.call_soon(self.commit)

    def commit(self) -> None:
        """Commit now, and perform the effects that waited for it."""
        self._is_scheduled = False
        try:
            self._run_states.commit()
        except JournalFailed as error:
            self._fail(error)
        else:
            self._recover()
            durable, self._durable = self._durable, []
            self._perform(durable)
        tried, self._tried = self._tried, []
        self._perform(tried)
        self._not_before = self._loop.time() + self._pace.gather_seconds

    def _fail(self, error: JournalFailed) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(self._pace.retry_seconds, self.schedule)
        if not self.is_failing:
            self.is_failing = True
            self._on_failing(True)
            # Last, because logging to the same full disk may raise.
            self._log.error("journal_write_failed", error=str(error), waiting=len(self._durable))

    def _recover(self) -> None:
        if self.is_failing:
            self.is_failing = False
            self._on_failing(False)
            self._log.info("journal_write_recovered")

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            try:
                effect()
            except Exception:  # noqa: BLE001 - a failing effect must not stop the others
                self._log.exception("effect_failed", effect=repr(effect))
