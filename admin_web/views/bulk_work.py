"""Runs bulk actions in the background, one after the other, and tracks their progress."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import structlog

from admin_web.forms.bulk import BulkAction
from scheduler.commands.bulk.bulk_outcomes import Counts, Outcome, Part
from scheduler.problems import Problem
from sql.errors import DatabaseUnavailable

log = structlog.get_logger()

#: Actions remembered at most, and problems kept of each.
KNOWN, REASONS = 200, 10

Parts = Callable[[], Iterator[Part]]


class WorkState(StrEnum):
    """The state of a bulk action."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A bulk action and its progress.

    `key` is that of the form that started it. `is_all` is False if more than these `total` objects
    match. `ids` are those of the objects, if the action can be undone.
    """

    key: str
    action: BulkAction
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
        """The milliseconds in which it ran; only once it has ended."""
        return range(self.began_at, self.ended_at + 1)

    @property
    def done(self) -> int:
        """How many objects were changed."""
        return self.counts[Outcome.DONE]

    @property
    def looked_at(self) -> int:
        """How many objects have been processed."""
        return self.counts.total()


class BulkWork:
    """The bulk actions of this console process; after a restart only the audit log has them."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._known: OrderedDict[str, tuple[Work, Parts]] = OrderedDict()

    def start(self, work: Work, parts: Parts) -> bool:
        """Start an action; return False if its form was already sent, unless that action failed."""
        with self._lock:
            known = self._known.get(work.key)
            if known is not None and (
                known[0].state is not WorkState.FAILED or known[0].user_id != work.user_id
            ):
                return False
            self._keep(work, parts)
        # A daemon thread: the console may stop in between, as each part is complete in itself.
        threading.Thread(target=self._do, args=(work.key,), name="bulk-work", daemon=True).start()
        return True

    def resume(self, key: str, user_id: int) -> bool:
        """Start a failed action again from the beginning; it skips what was already done."""
        with self._lock:
            known = self._known.get(key)
        if known is None or known[0].user_id != user_id:
            return False
        fresh = replace(known[0], counts=Counts(), problems=(), state=WorkState.RUNNING)
        return self.start(fresh, known[1])

    def add_done(self, work: Work) -> None:
        """Store a finished action, so that it can be undone."""
        with self._lock:
            ended = replace(work, state=WorkState.DONE, ended_at=self._now_ms())
            self._keep(ended, lambda: iter(()))

    def find(self, key: str, user_id: int) -> Work | None:
        """Return an action of this user; None if there is none."""
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
