"""Acts on many things in the background, one piece of work after the other, and tracks each."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import structlog

from scheduler.commands.bulk.outcomes import Counts, Outcome, Part
from scheduler.problems import Problem
from sql.errors import DatabaseUnavailable

log = structlog.get_logger()

#: Pieces of work that are known after they ended, and reasons kept of one.
KNOWN, REASONS = 200, 10

Parts = Callable[[], Iterator[Part]]


class WorkState(StrEnum):
    """How a piece of work stands."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What somebody asked for, and how far it is.

    `key` is that of the form that asked, `action` what is done. `is_all` is False when more than
    these `total` things fit. `ids` are those of the things, kept where it can be undone.
    """

    key: str
    action: str
    user_id: int
    total: int
    began_at: int
    ended_at: int = 0
    ids: Sequence[int] = ()
    is_all: bool = True
    counts: Counts = field(default_factory=Counts)
    problems: tuple[Problem, ...] = ()
    state: WorkState = WorkState.RUNNING

    @property
    def time(self) -> range:
        """Return the milliseconds in which it was done, once it ended."""
        return range(self.began_at, self.ended_at + 1)

    @property
    def done(self) -> int:
        """Return how many things were changed."""
        return self.counts[Outcome.DONE]

    @property
    def looked_at(self) -> int:
        """Return how many things it is through with."""
        return self.counts.total()


class BulkWork:
    """The work of this console; what it forgets when it ends is in the audit log."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._known: OrderedDict[str, tuple[Work, Parts]] = OrderedDict()

    def start(self, work: Work, parts: Parts) -> bool:
        """Begin; False when the form was sent before, unless that failed."""
        with self._lock:
            known = self._known.get(work.key)
            if known is not None and (
                known[0].state is not WorkState.FAILED or known[0].user_id != work.user_id
            ):
                return False
            self._keep(work, parts)
        # As a daemon: a console that ends leaves the rest, as every part is whole.
        threading.Thread(target=self._do, args=(work.key,), name="bulk-work", daemon=True).start()
        return True

    def resume(self, key: str, user_id: int) -> bool:
        """Begin what failed from its start again: what was done is not done twice."""
        with self._lock:
            known = self._known.get(key)
        if known is None or known[0].user_id != user_id:
            return False
        fresh = replace(known[0], counts=Counts(), problems=(), state=WorkState.RUNNING)
        return self.start(fresh, known[1])

    def add_done(self, work: Work) -> None:
        """Keep what is done already, so that it can be undone."""
        with self._lock:
            ended = replace(work, state=WorkState.DONE, ended_at=self._now_ms())
            self._keep(ended, lambda: iter(()))

    def find(self, key: str, user_id: int) -> Work | None:
        """Return somebody's work."""
        with self._lock:
            known = self._known.get(key)
        return known[0] if known is not None and known[0].user_id == user_id else None

    def _keep(self, work: Work, parts: Parts) -> None:
        self._known[work.key] = (work, parts)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)

    def _do(self, key: str) -> None:
        with self._turn:
            try:
                for part in self._known[key][1]():
                    self._note(key, part)
            except DatabaseUnavailable as error:
                log.warning("bulk_work_interrupted", error=str(error))
                self._end(key, WorkState.FAILED)
            except Exception:
                log.exception("bulk_work_failed")
                self._end(key, WorkState.FAILED)
            else:
                self._end(key, WorkState.DONE)

    def _note(self, key: str, part: Part) -> None:
        with self._lock:
            work, parts = self._known[key]
            problems = (*work.problems, *part.problems)[:REASONS]
            self._known[key] = (
                replace(work, counts=work.counts + part.counts, problems=problems),
                parts,
            )

    def _end(self, key: str, state: WorkState) -> None:
        with self._lock:
            work, parts = self._known[key]
            self._known[key] = (replace(work, state=state, ended_at=self._now_ms()), parts)
