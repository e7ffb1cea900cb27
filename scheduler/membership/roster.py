"""Which executors are alive, as this scheduler sees it. No I/O; monotonic clock; thread-safe.

A scheduler may call an executor dead only if it was healthy itself for the whole time. So every
deadline counts from the last sign of life or from when this scheduler became healthy, whichever is
later. Health that was not confirmed recently, as after a freeze, does not count.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from warren.broker.messages import Boot, HealthIssue, Heartbeat
from warren.scheduler.membership.catalogues import Abilities, Catalogues, Need
from warren.scheduler.node_context import Timeouts


class Standing(StrEnum):
    """What this scheduler knows about a boot that a run was routed to."""

    ALIVE = "ALIVE"
    SUPERSEDED = "SUPERSEDED"
    DEAD = "DEAD"
    UNCLEAR = "UNCLEAR"


@dataclass(slots=True)
class Member:
    """An address, the boot that holds it, and when it was last heard from.

    `returns_seconds`: how long it may be silent and still come back with its runs.
    """

    app: str
    address: str
    boot_id: str
    seen_at: float
    heartbeat: Heartbeat | None = None
    gone: bool = False
    returns_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Use:
    """When an address last took triggers, and the fingerprint of what it could run."""

    at: float
    catalogue: str


def _bounded(heartbeat: Heartbeat) -> Heartbeat:
    """Return a heartbeat as a roster keeps it, with every part bounded."""
    return msgspec.structs.replace(heartbeat, health_issues=heartbeat.each_health_issue)


#: The longest silence that an executor may ask to be allowed.
RETURN_LIMIT_SECONDS = 120.0


class Roster:
    """The executors that hold an address.

    Args:
        clock: monotonic seconds.
        timeouts: it uses `dead_after`, `lapse` and `no_executor`.
        catalogues: what executors can run; None = anything.

    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        timeouts: Timeouts | None = None,
        catalogues: Catalogues | None = None,
    ) -> None:
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._members: dict[tuple[str, str], Member] = {}
        self._healthy_since: float | None = None
        self._vouched_at = float("-inf")
        self._catalogues = catalogues
        self._uses: dict[tuple[str, str], tuple[_Use, ...]] = {}
        self._abilities: dict[str, tuple[object, Abilities]] = {}
        self._drained: frozenset[Boot] = frozenset()
        #: When it was last noted that an address cannot be reached.
        self._unreachable: dict[tuple[str, str], float] = {}
        #: Whether run ids have gone back, so that executors of 0.1.0 get nothing: they distinguish
        #: runs by their ids alone.
        self.needs_identities = False

    def set_health(self, healthy: bool) -> None:
        """Set whether this scheduler is healthy; a gap restarts all deadlines."""
        with self._lock:
            if not healthy:
                self._healthy_since = None
            elif self._fit_since() is None:
                self._healthy_since = self._clock()
            self._vouched_at = self._clock()

    @property
    def is_healthy(self) -> bool:
        """Whether this scheduler may judge others now."""
        with self._lock:
            return self._fit_since() is not None

    @property
    def healthy_seconds(self) -> float:
        """For how long this scheduler has been healthy; 0 while it is not."""
        with self._lock:
            fit_since = self._fit_since()
            return 0.0 if fit_since is None else self._clock() - fit_since

    def admit(self, heartbeat: Heartbeat) -> None:
        """Make the boot that sent this heartbeat the holder of its address."""
        with self._lock:
            self._note(self._seat(heartbeat.app, heartbeat.address, heartbeat.boot_id), heartbeat)

    def recall(self, app: str, address: str, boot_id: str, *, returns_seconds: float = 0.0) -> None:
        """Make a boot named by the registry the holder of its address, as if just seen."""
        with self._lock:
            member = self._seat(app, address, boot_id)
            member.returns_seconds = min(returns_seconds, RETURN_LIMIT_SECONDS)

    def hear(self, heartbeat: Heartbeat) -> bool:
        """Record a sign of life; return False if this boot does not hold its address here."""
        with self._lock:
            member = self._members.get((heartbeat.app, heartbeat.address))
            if member is None or member.boot_id != heartbeat.boot_id or member.gone:
                return False
            self._note(member, heartbeat)
            return True

    def dismiss(self, app: str, address: str, boot_id: str) -> None:
        """Record a goodbye: no run of this boot is running or waiting any more."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                self._use(member)
                member.gone = True

    def may_return(self, app: str, address: str, boot_id: str) -> bool:
        """Whether a boot that goes on with its runs after a silence may still be heard from."""
        with self._lock:
            member = self._members.get((app, address))
            if member is None or member.boot_id != boot_id or member.gone:
                return False
            fit_since = self._fit_since()
            heard_at = self._clock() if fit_since is None else max(member.seen_at, fit_since)
            is_recent = self._clock() - heard_at <= self._timeouts.dead_after
            return member.returns_seconds > 0 and is_recent

    def has_left(self, app: str, address: str, boot_id: str) -> bool:
        """Return whether a boot has said goodbye."""
        with self._lock:
            member = self._members.get((app, address))
            return member is not None and member.boot_id == boot_id and member.gone

    def set_reachable(self, app: str, address: str, *, is_reachable: bool) -> None:
        """Set whether triggers arrive in an executor's queue: it may be missing, or its node down.

        An executor that is not reachable gets no runs, and counts as neither absent nor dead. One
        that cannot be admitted for that reason counts only while its heartbeats arrive, each of
        which is noted here.
        """
        now = self._clock()
        with self._lock:
            if is_reachable:
                self._unreachable.pop((app, address), None)
                return
            self._unreachable[app, address] = now
            self._unreachable = {
                key: noted_at
                for key, noted_at in self._unreachable.items()
                if key in self._members or now - noted_at <= self._timeouts.dead_after
            }

    def unreachable(self, app: str | None = None) -> dict[tuple[str, str], str]:
        """Return the live executors whose queues cannot be reached, each with its boot id.

        The boot id is empty if none has been admitted here.
        """
        with self._lock:
            return {
                key: member.boot_id if (member := self._members.get(key)) else ""
                for key in sorted(self._unreachable)
                if app in (None, key[0]) and self._is_heard(*key)
            }

    def set_drained(self, boots: Iterable[Boot]) -> None:
        """Set which boots are to get no new runs."""
        with self._lock:
            self._drained = frozenset(boots)

    def forget(self, app: str, address: str, boot_id: str) -> None:
        """Drop a boot that has no runs left to settle."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                del self._members[app, address]
                self._unreachable.pop((app, address), None)

    def routable(self, app: str) -> dict[str, str]:
        """Return the boot id by address of an app's executors that take triggers."""
        with self._lock:
            routable = {
                member.address: member.boot_id
                for member in self._members.values()
                if member.app == app and self._takes_triggers(member)
            }
        return dict(sorted(routable.items()))

    def outdated(self) -> list[str]:
        """Return the live executors that get nothing until they are upgraded, as APP/NAME."""
        with self._lock:
            return sorted(
                f"{member.app}/{member.address}"
                for member in self._members.values()
                if member.heartbeat is not None
                and self._is_outdated(member.heartbeat)
                and self._standing_of(member) is Standing.ALIVE
            )

    def unhealthy(self, app: str) -> dict[str, tuple[HealthIssue, ...]]:
        """Return health problems by address, of the app's executors that take triggers."""
        with self._lock:
            return {
                member.address: member.heartbeat.health_issues
                for member in self._members.values()
                if member.app == app
                and self._takes_triggers(member)
                and member.heartbeat is not None
                and member.heartbeat.health_issues
            }

    def hindered(self, app: str) -> dict[str, tuple[HealthIssue, ...]]:
        """Return those of the app's unhealthy executors that routes pass over."""
        hindering = {
            address: tuple(issue for issue in issues if issue.hinders_runs)
            for address, issues in self.unhealthy(app).items()
        }
        return {address: issues for address, issues in hindering.items() if issues}

    def triggers_per_message(self, app: str, address: str, boot_id: str) -> int:
        """Return how many triggers a boot takes in one message, according to its heartbeats."""
        with self._lock:
            member = self._members.get((app, address))
            if member is None or member.heartbeat is None or member.boot_id != boot_id:
                return 1
            return member.heartbeat.triggers_per_message

    def absent_seconds(
        self, app: str, addresses: Iterable[str] = (), need: Need | None = None
    ) -> float:
        """Return for how long this healthy scheduler has known of no executor that takes triggers.

        `addresses` limits it to these executors, and `need` to those that have it or may have it. 0
        while this scheduler is not healthy itself, or cannot reach the queue of one that is alive.
        """
        wanted = set(addresses)
        with self._lock:
            fit_since = self._fit_since()
            if fit_since is None or any(
                name == app and (not wanted or address in wanted) and self._is_heard(name, address)
                for name, address in self._unreachable
            ):
                return 0.0
            uses = [
                use.at
                for (name, address), all_uses in self._uses.items()
                if name == app and (not wanted or address in wanted)
                for use in all_uses
                if self._may_have(use.catalogue, need)
            ]
            return self._clock() - max([fit_since, *uses])

    def abilities(self, app: str) -> Abilities:
        """Return what the app's executors can run, of those that take triggers."""
        with self._lock:
            able = {
                member.address: member.heartbeat
                for member in self._members.values()
                if member.app == app and self._takes_triggers(member) and member.heartbeat
            }
            facts = tuple(
                (ability.address, ability.catalogue, ability.load.slots)
                for ability in able.values()
            )
            state = (facts, self._catalogues.generation if self._catalogues else 0)
            known = self._abilities.get(app)
            if known is None or known[0] != state:
                fingerprints = {address: catalogue for address, catalogue, _ in facts}
                slots = {address: count for address, _, count in facts}
                known = self._abilities[app] = (
                    state,
                    Abilities(self._catalogues, fingerprints, slots),
                )
            return known[1]

    def catalogue_of(self, boot: Boot) -> str:
        """Return the fingerprint in a boot's heartbeats; empty if it is not known here."""
        with self._lock:
            member = self._members.get(boot[:2])
            if member is None or member.heartbeat is None or member.boot_id != boot.boot_id:
                return ""
            return member.heartbeat.catalogue

    def all_catalogues(self) -> set[str]:
        """Return the fingerprints of all executors."""
        with self._lock:
            return {
                member.heartbeat.catalogue for member in self._members.values() if member.heartbeat
            }

    def standing(self, app: str, address: str, boot_id: str) -> Standing:
        """Return the state of a boot; UNCLEAR until this scheduler has listened long enough."""
        with self._lock:
            member = self._members.get((app, address))
            if member is not None and member.boot_id == boot_id:
                return self._standing_of(member)
            if member is not None and self._standing_of(member) is Standing.ALIVE:
                return Standing.SUPERSEDED
            return self._dead_if_silent_since(float("-inf"))

    def holder(self, app: str, address: str) -> str | None:
        """Return the boot id that holds an address here."""
        with self._lock:
            member = self._members.get((app, address))
            return None if member is None else member.boot_id

    def members(self) -> list[tuple[Member, Standing]]:
        with self._lock:
            return [(member, self._standing_of(member)) for member in self._members.values()]

    # -- with the lock held -------------------------------------------------------------------

    def _seat(self, app: str, address: str, boot_id: str) -> Member:
        member = Member(app, address, boot_id, self._clock())
        self._members[app, address] = member
        return member

    def _note(self, member: Member, heartbeat: Heartbeat) -> None:
        member.seen_at, member.heartbeat = self._clock(), _bounded(heartbeat)
        member.returns_seconds = min(heartbeat.returns_seconds, RETURN_LIMIT_SECONDS)
        if not heartbeat.draining and not self._is_outdated(heartbeat):
            self._use(member)

    def _use(self, member: Member) -> None:
        """Record that a member takes triggers now; the times of its earlier catalogues are kept."""
        if member.heartbeat is None:
            return
        now, key = self._clock(), (member.app, member.address)
        use = _Use(now, member.heartbeat.catalogue)
        if key not in self._uses:
            # Longer than any run waits for an executor.
            kept_seconds = 2 * self._timeouts.no_executor + self._timeouts.dead_after
            self._uses = {
                use: uses for use, uses in self._uses.items() if now - uses[0].at <= kept_seconds
            }
        others = [recent for recent in self._uses.get(key, ()) if recent.catalogue != use.catalogue]
        self._uses[key] = (use, *others[:1])

    def _may_have(self, catalogue: str, need: Need | None) -> bool:
        if need is None or self._catalogues is None:
            return True
        return self._catalogues.has(catalogue, need) is not False

    def _is_outdated(self, heartbeat: Heartbeat) -> bool:
        return self.needs_identities and heartbeat.last_run_id is None

    def _is_heard(self, app: str, address: str) -> bool:
        """Whether an executor that cannot be reached is alive."""
        member = self._members.get((app, address))
        if member is not None and self._standing_of(member) is Standing.ALIVE:
            return True
        noted_at = self._unreachable.get((app, address), float("-inf"))
        is_gone = member is not None and member.gone
        return not is_gone and self._clock() - noted_at <= self._timeouts.dead_after

    def _takes_triggers(self, member: Member) -> bool:
        heartbeat = member.heartbeat
        if (member.app, member.address) in self._unreachable:
            return False
        if heartbeat is None or heartbeat.draining or member.gone:
            return False
        if self._is_outdated(heartbeat):
            return False
        if (member.app, member.address, member.boot_id) in self._drained:
            return False
        return self._clock() - member.seen_at <= self._timeouts.dead_after

    def _standing_of(self, member: Member) -> Standing:
        if member.gone:
            return Standing.DEAD
        silent_seconds = self._clock() - member.seen_at
        if member.heartbeat is not None and silent_seconds <= self._timeouts.dead_after:
            return Standing.ALIVE
        return self._dead_if_silent_since(member.seen_at, member.returns_seconds)

    def _dead_if_silent_since(self, seen_at: float, returns_seconds: float = 0.0) -> Standing:
        fit_since = self._fit_since()
        if fit_since is None:
            return Standing.UNCLEAR
        silent_seconds = self._clock() - max(seen_at, fit_since)
        dead_after = max(self._timeouts.dead_after, returns_seconds)
        return Standing.DEAD if silent_seconds > dead_after else Standing.UNCLEAR

    def _fit_since(self) -> float | None:
        """Return since when this scheduler is healthy, None if it is not.

        It confirms its health every half second. If it was frozen in between, it received nothing.
        """
        if self._clock() - self._vouched_at > self._timeouts.lapse:
            return None
        return self._healthy_since
