"""How the runs have ended that runs of this boot have called and wait for.

Each look of a job process asks the schedulers again, from time to time: questions and answers may
get lost.
"""

import math
from collections import OrderedDict
from collections.abc import Callable

from warren.broker.messages.to_executor import CallEnded
from warren.broker.messages.to_scheduler import CallName, WhichEnded
from warren.broker.messages.values import CallEnd
from warren.executor.fork_server.frames import Await
from warren.executor.messaging.signed_sender import Sender

#: Seconds between two questions about a call, at first and at most, and for which one is valid.
SHORTEST_ASK, LONGEST_ASK = 0.1, 2.0
_VALID_SECONDS = 10.0
#: The most calls that are remembered: of others, an answer or the last question is forgotten.
REMEMBERED = 1_000


class AwaitedCalls:
    """The calls that runs wait for. Used from the core thread; `now` is a monotonic clock."""

    def __init__(self, sender: Sender, now: Callable[[], float]) -> None:
        self._sender = sender
        self._now = now
        #: Each call with its end, or with when it was asked about first and last.
        self._known: OrderedDict[tuple[int, int], CallEnd | tuple[float, float]] = OrderedDict()

    def end_of(self, call: Await, identity: int) -> CallEnd | None:
        """Return how the run of a call has ended; None = not yet known, but asked.

        `identity` is that of the caller's trigger.
        """
        key = (call.run_id, call.number)
        known = self._known.get(key)
        if isinstance(known, CallEnd):
            del self._known[key]  # it is told once
            return known
        now = self._now()
        first, last = known or (now, -math.inf)
        if now - last >= min(LONGEST_ASK, max(SHORTEST_ASK, (now - first) / 4)):
            self._keep(key, (first, now))
            self._ask(call, identity)
        return None

    def note(self, answer: CallEnded) -> None:
        """Take an answer."""
        key = (answer.run_id, answer.number)
        if key in self._known:
            self._keep(key, answer.end)

    def _keep(self, key: tuple[int, int], known: CallEnd | tuple[float, float]) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _ask(self, call: Await, identity: int) -> None:
        who = self._sender.identity
        name = CallName(run_id=call.run_id, identity=identity, number=call.number, job=call.job)
        question = WhichEnded(app=who.app, address=who.address, boot_id=who.boot_id, call=name)
        self._sender.send(question, valid_seconds=_VALID_SECONDS)
