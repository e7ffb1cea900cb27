"""Who lives, as this scheduler sees it: pure bookkeeping on a monotonic clock, thread-safe.

R7: only a scheduler that was itself healthy for the whole time may call another dead. So every
deadline counts from the last sign of life or from the start of this scheduler's own health,
whichever is later.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from broker.messages import Heartbeat

#: Three missed heartbeats of 5 s.
DEAD_AFTER_SECONDS = 15.0


class Standing(StrEnum):
    """What this scheduler may say of a boot that a run was routed to."""

    ALIVE = "ALIVE"
    SUPERSEDED = "SUPERSEDED"
    DEAD = "DEAD"
    UNCLEAR = "UNCLEAR"


@dataclass(slots=True)
class Member:
    """An address, the boot that holds it, and when that was last heard of."""

    app: str
    address: str
    boot_id: str
    seen_at: float
    heartbeat: Heartbeat | None = None
    gone: bool = False


class Roster:
    """The executors that hold an address.

    Args:
        clock: monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._members: dict[tuple[str, str], Member] = {}
        self._healthy_since: float | None = None
        self._left_at: dict[tuple[str, str], float] = {}

    def set_health(self, healthy: bool) -> None:
        """Say whether this scheduler itself is fit to judge; a gap starts all deadlines anew."""
        with self._lock:
            if not healthy:
                self._healthy_since = None
            elif self._healthy_since is None:
                self._healthy_since = self._clock()

    @property
    def is_healthy(self) -> bool:
        """Whether this scheduler may judge others now."""
        with self._lock:
            return self._healthy_since is not None

    def admit(self, app: str, address: str, boot_id: str, heartbeat: Heartbeat | None) -> None:
        """Make a boot the holder of its address."""
        with self._lock:
            member = Member(app, address, boot_id, self._clock(), heartbeat)
            self._members[app, address] = member

    def hear(self, heartbeat: Heartbeat) -> bool:
        """Note a sign of life; False when this boot does not hold its address here."""
        with self._lock:
            member = self._members.get((heartbeat.app, heartbeat.address))
            if member is None or member.boot_id != heartbeat.boot_id or member.gone:
                return False
            member.seen_at, member.heartbeat = self._clock(), heartbeat
            return True

    def dismiss(self, app: str, address: str, boot_id: str) -> None:
        """Note a goodbye: nothing of this boot runs or waits any more."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                member.gone = True
                self._left_at[app, address] = self._clock()

    def forget(self, app: str, address: str, boot_id: str) -> None:
        """Drop a boot of which nothing is left to settle."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                del self._members[app, address]

    def routable(self, app: str) -> dict[str, str]:
        """Return the boot id by address of an app's executors that take triggers, by address."""
        with self._lock:
            found = {
                member.address: member.boot_id
                for member in self._members.values()
                if member.app == app and self._takes_triggers(member)
            }
        return dict(sorted(found.items()))

    def absent_seconds(self, app: str, addresses: Iterable[str] = ()) -> float:
        """Return for how long this healthy scheduler has heard of no executor that takes triggers.

        `addresses` limits the question to these; 0 while this scheduler is not healthy itself.
        """
        wanted = set(addresses)
        with self._lock:
            if self._healthy_since is None:
                return 0.0
            heard = [
                member.seen_at
                for member in self._members.values()
                if member.app == app
                and (not wanted or member.address in wanted)
                and self._takes_triggers(member)
            ]
            left_at = max(
                (
                    at
                    for (name, address), at in self._left_at.items()
                    if name == app and (not wanted or address in wanted)
                ),
                default=self._healthy_since,
            )
            return self._clock() - max([self._healthy_since, left_at, *heard])

    def standing(self, app: str, address: str, boot_id: str) -> Standing:
        """Return what may be said of a boot; UNCLEAR until this scheduler has listened enough."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                return self._standing_of(member)
            if member is not None and self._standing_of(member) is Standing.ALIVE:
                return Standing.SUPERSEDED
            return Standing.DEAD if self._has_listened() else Standing.UNCLEAR

    def holder(self, app: str, address: str) -> str | None:
        """Return the boot id that holds an address here."""
        with self._lock:
            member = self._members.get((app, address))
            return None if member is None else member.boot_id

    def members(self) -> list[tuple[Member, Standing]]:
        """Return every member with its standing."""
        with self._lock:
            return [(member, self._standing_of(member)) for member in self._members.values()]

    def _takes_triggers(self, member: Member) -> bool:
        heartbeat = member.heartbeat
        if heartbeat is None or heartbeat.draining or member.gone:
            return False
        return self._clock() - member.seen_at <= DEAD_AFTER_SECONDS

    def _standing_of(self, member: Member) -> Standing:
        if member.gone:
            return Standing.DEAD
        silent_seconds = self._clock() - member.seen_at
        if member.heartbeat is not None and silent_seconds <= DEAD_AFTER_SECONDS:
            return Standing.ALIVE
        if self._healthy_since is None:
            return Standing.UNCLEAR
        base = max(member.seen_at, self._healthy_since)
        return Standing.DEAD if self._clock() - base > DEAD_AFTER_SECONDS else Standing.UNCLEAR

    def _has_listened(self) -> bool:
        since = self._healthy_since
        return since is not None and self._clock() - since > DEAD_AFTER_SECONDS
