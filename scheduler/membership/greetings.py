"""Heartbeats that wait for an answer: a bounded number, and each app in its turn.

An executor's key is good for one app only. Whoever holds it may send heartbeats of ever new boots,
and must not keep the executors of other apps waiting.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from warren.broker.boot import Boot
from warren.broker.messages.to_scheduler import Heartbeat

#: Boots that wait for one address besides its holder: an executor and one that takes its place.
BOOTS_OF_AN_ADDRESS = 2
#: Heartbeats that one round answers; a newcomer costs some milliseconds.
OF_A_ROUND = 200


@dataclass(frozen=True, slots=True)
class Greeting:
    """A heartbeat, and the broker's account that sent it."""

    beat: Heartbeat
    account: str

    @property
    def boot(self) -> Boot:
        """The boot that sent it."""
        return Boot(self.beat.app, self.beat.address, self.beat.boot_id)


class Greetings:
    """The latest heartbeat of each boot that waits. For use under a lock.

    Of one app no more than `address_limit` addresses wait.
    """

    def __init__(self, address_limit: int) -> None:
        self._address_limit = address_limit
        self._waiting: dict[str, dict[str, dict[str, Greeting]]] = {}

    def __bool__(self) -> bool:
        """Whether any wait."""
        return bool(self._waiting)

    def add(self, greeting: Greeting, *, is_holder: bool) -> bool:
        """Let a heartbeat wait; False if there are too many others. A holder always may.

        Of several accounts that send heartbeats of one boot, the first is answered.
        """
        beat = greeting.beat
        of_app = self._waiting.setdefault(beat.app, {})
        if beat.address not in of_app and len(of_app) >= self._address_limit and not is_holder:
            return False
        boots = of_app.setdefault(beat.address, {})
        earlier = boots.get(beat.boot_id)
        if earlier is None and len(boots) >= BOOTS_OF_AN_ADDRESS and not is_holder:
            return False
        if earlier is None or earlier.account == greeting.account:
            boots[beat.boot_id] = greeting
        return True

    def take(self) -> deque[Greeting]:
        """Take those that the next round answers: one of each app, then another of each."""
        taken: deque[Greeting] = deque()
        by_app = {
            app: deque(one for boots in of_app.values() for one in boots.values())
            for app, of_app in self._waiting.items()
        }
        while by_app and len(taken) < OF_A_ROUND:
            for app, greetings in list(by_app.items()):
                taken.append(greetings.popleft())
                if not greetings:
                    del by_app[app]
        self._waiting = {}
        self.put_back(one for greetings in by_app.values() for one in greetings)
        return taken

    def put_back(self, greetings: Iterable[Greeting]) -> None:
        """Let heartbeats wait again, unless their boots have sent others meanwhile."""
        for greeting in greetings:
            beat = greeting.beat
            boots = self._waiting.setdefault(beat.app, {}).setdefault(beat.address, {})
            boots.setdefault(beat.boot_id, greeting)
