"""Runs bulk actions in the background, one after the other, and tracks their progress."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import structlog

from warren.admin_web.forms.bulk import BulkAction
from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import Visitor, has_rights_of
from warren.scheduler.actor import Actor
from warren.scheduler.commands.bulk.reruns import Counts, Outcome, Part
from warren.scheduler.commands.commands import Commands
from warren.scheduler.problems import Problem
from warren.sql.accounts.idempotency import FormKey
from warren.sql.errors import DatabaseUnavailable

log = structlog.get_logger()

#: The most finished actions that are kept for each user, and the most problems of an action.
KNOWN, REASONS = 50, 10


class WorkState(StrEnum):
    """The state of a bulk action."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"
    #: The user was disabled or has other rights than at the start.
    REVOKED = "REVOKED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A bulk action on the objects with these ids, and its progress.

    `key` is that of the form that started it. `is_all` is False if more objects match. `undone` is
    the time of the action that this one undoes, if it does. `cancelled` is how many planned runs it
    has cancelled.
    """

    key: str
    action: BulkAction
    user_id: int
    ids: Sequence[int]
    began_at: int
    ended_at: int = 0
    is_all: bool = True
    undone: range = range(0)
    counts: Counts = field(default_factory=Counts)
    cancelled: int = 0
    problems: tuple[Problem, ...] = ()
    state: WorkState = WorkState.RUNNING

    @property
    def total(self) -> int:
        """How many objects it is about."""
        return len(self.ids)

    @property
    def form(self) -> FormKey:
        """The form that started it, by which commands recognize what it has done before."""
        return FormKey(user_id=self.user_id, key=self.key)

    @property
    def is_interrupted(self) -> bool:
        """Whether it ended before it was done."""
        return self.state in (WorkState.FAILED, WorkState.REVOKED)

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


#: Carries out an action part by part, with the commands of the user who started it.
Parts = Callable[[Commands, Work], Iterator[Part]]


class BulkWork:
    """The bulk actions of this console process; after a restart only the audit log has them."""

    def __init__(self, services: ConsoleServices, parts: Parts) -> None:
        self._services = services
        self._parts = parts
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._known: OrderedDict[str, Work] = OrderedDict()

    def start(self, work: Work, actor: Actor) -> bool:
        """Start an action; return False if its form was already sent, unless it was interrupted."""
        with self._lock:
            known = self._known.get(work.key)
            if known is not None and not (known.is_interrupted and known.user_id == work.user_id):
                return False
            self._keep(work)
        # A daemon thread: the console may stop in between, as each part is complete in itself.
        threading.Thread(target=self._do, args=(work, actor), name="bulk-work", daemon=True).start()
        return True

    def resume(self, key: str, visitor: Visitor) -> bool:
        """Start an interrupted action again from the beginning; it skips what was already done.

        It has the visitor's current rights, not those that the action began with.
        """
        known = self.find(key, visitor.user_id)
        if known is None:
            return False
        fresh = replace(known, counts=Counts(), problems=(), cancelled=0, state=WorkState.RUNNING)
        return self.start(fresh, visitor.actor)

    def add_done(self, work: Work) -> None:
        """Store a finished action, so that it can be undone."""
        with self._lock:
            self._keep(replace(work, state=WorkState.DONE, ended_at=self._services.now_ms()))

    def find(self, key: str, user_id: int) -> Work | None:
        """Return an action of this user; None if there is none."""
        with self._lock:
            known = self._known.get(key)
        return known if known is not None and known.user_id == user_id else None

    def _keep(self, work: Work) -> None:
        """Store an action as it is now, and forget the oldest finished ones of its user."""
        self._known[work.key] = work
        self._known.move_to_end(work.key)
        ended = [
            entry.key
            for entry in self._known.values()
            if entry.user_id == work.user_id and entry.state is not WorkState.RUNNING
        ]
        for key in ended[:-KNOWN]:
            del self._known[key]

    def _do(self, work: Work, actor: Actor) -> None:
        with self._turn:
            try:
                state = self._run(work, actor)
            except DatabaseUnavailable as error:
                log.warning("bulk_work_interrupted", error=str(error))
                state = WorkState.FAILED
            except Exception:
                log.exception("bulk_work_failed")
                state = WorkState.FAILED
            self._end(work.key, state)

    def _run(self, work: Work, actor: Actor) -> WorkState:
        """Do part after part while the user has the rights; return how it ended."""
        parts = self._parts(self._services.commands(actor), work)
        while self._services.database.read(
            lambda session: has_rights_of(session, work.user_id, actor)
        ):
            part = next(parts, None)
            if part is None:
                return WorkState.DONE
            self._add_part(work.key, part)
        return WorkState.REVOKED

    def _add_part(self, key: str, part: Part) -> None:
        with self._lock:
            work = self._known[key]
            problems = (*work.problems, *part.problems)[:REASONS]
            counts, cancelled = work.counts + part.counts, work.cancelled + part.cancelled
            self._keep(replace(work, counts=counts, problems=problems, cancelled=cancelled))

    def _end(self, key: str, state: WorkState) -> None:
        with self._lock:
            work = self._known[key]
            self._keep(replace(work, state=state, ended_at=self._services.now_ms()))
