"""Whether the broker still answers, and so whether waiting runs may still be started.

    HELD ──10 s without a confirmed heartbeat──> LOST ──confirmed──> ASKING ──all answered──> HELD

While contact is lost the schedulers may declare this executor dead and give its runs to others;
so what waited then is asked about before it is started. So is what arrives later but was routed
before: a frozen executor finds such triggers in its own sockets when it goes on.
"""

from collections.abc import Collection
from enum import Enum, auto

#: Without a confirmed heartbeat for so long nothing new is started. Schedulers take 15 s or more
#: to call an executor dead.
CONTACT_SECONDS = 10.0
#: How often the question is repeated.
ASK_SECONDS = 2.0
#: How far the clock by which a trigger was routed may be off.
CLOCK_SECONDS = 3.0


class _State(Enum):
    HELD = auto()
    LOST = auto()
    ASKING = auto()


class Contact:
    """The state machine above. Times are monotonic seconds. Used from one thread."""

    def __init__(self, now: float) -> None:
        self._confirmed_at = now
        self._state = _State.HELD
        self._uncertain: set[int] = set()
        self._asked_at = now - ASK_SECONDS
        self._regained_at = float("-inf")

    def is_held(self, now: float) -> bool:
        """Whether runs may be started now."""
        if now - self._confirmed_at > CONTACT_SECONDS:
            self._state = _State.LOST
        return self._state is _State.HELD

    def confirm(self, sent_at: float, now: float, waiting: Collection[int]) -> None:
        """Note that the broker answered a heartbeat of `sent_at`; `waiting` = runs not started."""
        was_held = self.is_held(now)
        self._confirmed_at = max(self._confirmed_at, sent_at)
        if was_held or now - self._confirmed_at > CONTACT_SECONDS:
            return
        if self._state is _State.LOST:
            self._regained_at = now
            self._uncertain = set(waiting)
            self._state = _State.ASKING if waiting else _State.HELD
            self._asked_at = now - ASK_SECONDS

    def arrive(self, run_id: int, routed_at: float, now: float) -> None:
        """Note a run that came in, and doubt it when it was routed before contact was regained."""
        if routed_at > self._regained_at + CLOCK_SECONDS or not self._has_answered(now):
            return
        self._uncertain.add(run_id)
        self._state = _State.ASKING
        self._asked_at = now - ASK_SECONDS

    def question(self, now: float) -> tuple[int, ...]:
        """Return the runs to ask about now; empty when there is nothing to ask or not yet again."""
        if self._state is not _State.ASKING or now - self._asked_at < ASK_SECONDS:
            return ()
        self._asked_at = now
        return tuple(sorted(self._uncertain))

    def answer(self, asked: Collection[int]) -> set[int]:
        """Note that these runs were answered for; return those that had been asked about."""
        answered = self._uncertain.intersection(asked)
        self._forget(answered)
        return answered

    def forget(self, run_id: int) -> None:
        """Ask nobody about this run: it ended while it waited."""
        self._forget({run_id})

    def _has_answered(self, now: float) -> bool:
        """Whether the broker answers; while it does not, all that waits will be asked about."""
        self.is_held(now)
        return self._state is not _State.LOST

    def _forget(self, run_ids: set[int]) -> None:
        self._uncertain -= run_ids
        if self._state is _State.ASKING and not self._uncertain:
            self._state = _State.HELD
