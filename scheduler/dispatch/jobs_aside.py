"""Jobs that peeks leave out for a while, because their runs cannot be sent now.

Runs are peeked at by due time. If thousands of jobs wait for one executor, theirs are the oldest,
so they must stay aside long enough for the others to be reached.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

#: How long a job is left out whose executor is full or offline.
FULL_SECONDS = 0.25
#: How long if so many are that they fill a peek: until its executor has room, but at least
#: `FULL_SECONDS`, so that a claim finds room for many runs, and at most this, as its route may
#: choose another executor; or if it waits for several executors or for one that is offline.
MANY_FULL_SECONDS = 5.0
MANY_WAITING_SECONDS = 1.0
#: How long a job is left out whose runs can neither be routed nor ended.
BROKEN_SECONDS = 60.0

#: An address of an app.
Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class _Aside:
    """How long a job is left out: until a time, or once there is room at a place, if it has one."""

    until: float
    with_room_at: float = 0.0
    place: Place | None = None


class JobsAside:
    """Knows which jobs to leave out. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._jobs: dict[int, _Aside] = {}

    def put_full(self, full: Mapping[int, Place | None], now: float, *, peek_limit: int) -> None:
        """Leave out jobs for which a place has no room, or which wait for several or for none.

        A peek for at most `peek_limit` runs found them. As many jobs or more could fill the next
        one too, if they came back before it.
        """
        are_many = len(self._jobs) + len(full) >= peek_limit
        for job_id, place in full.items():
            seconds = FULL_SECONDS
            if are_many:
                seconds = MANY_FULL_SECONDS if place else MANY_WAITING_SECONDS
            self._jobs[job_id] = _Aside(now + seconds, now + FULL_SECONDS, place)

    def put_broken(self, job_id: int, now: float) -> None:
        """Leave out a job that would fail again."""
        self._jobs[job_id] = _Aside(now + BROKEN_SECONDS)

    def free(self, now: float, room_of: Callable[[Place], int]) -> None:
        """Let jobs in again whose time is over, and as many as now have room at their place."""
        room: dict[Place, int] = {}
        kept = {}
        for job_id, aside in self._jobs.items():
            place = aside.place
            if aside.until <= now:
                continue
            if place is not None and aside.with_room_at <= now:
                left = room[place] if place in room else room_of(place)
                room[place] = left - 1
                if left > 0:
                    continue
            kept[job_id] = aside
        self._jobs = kept

    @property
    def job_ids(self) -> Collection[int]:
        """The jobs to leave out."""
        return self._jobs.keys()
