"""Effects that wait for the journal: whatever a few milliseconds bring is synced in one go."""

import asyncio
from collections.abc import Callable

import structlog

from executor.errors import JournalFailed
from executor.ledger import Ledger

#: How long after a failed write the next one is tried.
RETRY_SECONDS = 1.0

#: Shortest time from one commit to the next: each holds up the loop for as long as the disk takes.
GATHER_SECONDS = 0.005

Effect = Callable[[], None]


class GroupCommit:
    """Commits the ledger at the end of a loop round, then lets the effects happen in order.

    Soon after a commit the next one waits for what else comes.

    While the journal cannot be written, `on_trouble(True)` has been called; durable effects wait
    until it can, and then `on_trouble(False)` is called.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ledger: Ledger,
        log: structlog.typing.FilteringBoundLogger,
        on_trouble: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._ledger = ledger
        self._log = log
        self._on_trouble = on_trouble
        self._durable: list[Effect] = []
        self._tried: list[Effect] = []
        self._is_scheduled = False
        self._not_before = 0.0
        self._retry: asyncio.TimerHandle | None = None
        self.is_in_trouble = False

    def when_durable(self, effect: Effect) -> None:
        """Have this happen once all that the ledger was told so far is durable."""
        self._durable.append(effect)
        self.schedule()

    def once_tried(self, effect: Effect) -> None:
        """Have this happen after the commit, even one that fails.

        For the report of a run that is over: should this process die with the disk full, the run
        is reported LOST as well, and the first report stands.
        """
        self._tried.append(effect)
        self.schedule()

    def schedule(self) -> None:
        """See to it that what the ledger was told is committed soon."""
        if not self._is_scheduled:
            self._is_scheduled = True
            if self._loop.time() < self._not_before:
                self._loop.call_at(self._not_before, self.commit)
            else:
                self._loop.call_soon(self.commit)

    def commit(self) -> None:
        """Commit now, and let happen what waited for it."""
        self._is_scheduled = False
        try:
            self._ledger.commit()
        except JournalFailed as error:
            self._fail(error)
        else:
            self._recover()
            durable, self._durable = self._durable, []
            self._perform(durable)
        tried, self._tried = self._tried, []
        self._perform(tried)
        self._not_before = self._loop.time() + GATHER_SECONDS

    def _fail(self, error: JournalFailed) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(RETRY_SECONDS, self.schedule)
        if not self.is_in_trouble:
            self.is_in_trouble = True
            self._on_trouble(True)
            # Last, since a log on the same full disk may raise.
            self._log.error("journal_write_failed", error=str(error), waiting=len(self._durable))

    def _recover(self) -> None:
        if self.is_in_trouble:
            self.is_in_trouble = False
            self._on_trouble(False)
            self._log.info("journal_write_recovered")

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            try:
                effect()
            except Exception:  # noqa: BLE001 - one effect spoils no other
                self._log.exception("effect_failed", effect=repr(effect))
