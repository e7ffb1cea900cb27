"""What the API answers about a run: its row, the state of its tick, and its log.

A view that may answer later, once the tick is over, returns a `Wait`: long polling without a thread
per request. The server puts the connection aside and frees the thread. When the tick is over, the
time is up, the client has left or the process stops, the server calls the application again with
the same request, and `Wait.later` makes the answer.
"""

import hashlib
import re
import selectors
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import msgspec
import structlog
from flask import Request, request
from sqlalchemy.orm import Session

from warren.admin_web.api.authentication import ConcurrencyLimits
from warren.admin_web.api.endpoint import Call, Reply
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.run_logs import LogPart, LogReader, ReadStatus, Source
from warren.admin_web.services import ApiServices
from warren.resources.operation import IS_KEY, JSON, KEY_RULE, TEXT
from warren.resources.runs import LONGEST_SECONDS, LogAnswer, LogQuery, RunWithTick, TickEnd
from warren.scheduler.completion.end import Attempt, tick_end
from warren.scheduler.views.limit_view import in_words, waits_for
from warren.scheduler.views.run_view import run_fields
from warren.sql.accounts.idempotency import IdempotentRequest
from warren.sql.engine import Database
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.listings import ledger, recent
from warren.sql.registry.presence import EXECUTOR_ALIVE_MS
from warren.sql.run_status import FINAL, OPEN
from warren.sql.runs import calls
from warren.sql.runs.run_rows import DetailedRun
from warren.sql.runs.ticks import tick_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a view returns if the answer may come later.

    Attributes:
        run_id: the answer comes when the whole tick of this run is over.
        seconds: how long it may be held.
        at_once: the answer if it cannot be held.
        later: returns the answer, or None if it is to be asked again. Its arguments are the call as
            admitted by then, without query and body, and whether it must answer now.
        is_polled: whether to ask `later` from time to time before the tick is over.

    """

    run_id: int
    seconds: float
    at_once: Reply
    later: Callable[[Call, bool], Reply | None]
    is_polled: bool = False


def applied(seconds: float) -> dict[str, str]:
    """Return the header that says how long the request could be held."""
    return {"Preference-Applied": f"wait={int(seconds)}"}


def preferred_wait_seconds() -> float:
    """Return how long the client is willing to wait (`Prefer: wait=30`); 0 by default."""
    for preference in request.headers.get("Prefer", "").split(","):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() != "wait":
            continue
        text = value.strip().strip('"')
        if not re.fullmatch("[0-9]{1,6}", text) or int(text) > LONGEST_SECONDS:
            raise at_parameter("Prefer", f"expected wait to be 0 to {LONGEST_SECONDS} seconds")
        return float(text)
    return 0.0


EXECUTOR, STORE, KEPT, NONE = "executor", "store", "kept", "none"


class RunLogAnswers:
    """Reads run logs."""

    def __init__(self, services: ApiServices) -> None:
        self._reader = LogReader(services.requester, stored=services.stored_logs)
        self._now_ms = services.now_ms

    def read(self, run: DetailedRun, place: Source, query: LogQuery) -> LogAnswer:
        """Return lines from a line on."""
        part, source = self._read(run, place, query)
        return LogAnswer(
            from_line=part.from_line,
            next_line=part.next_line,
            text="\n".join(part.lines) + "\n" if part.lines else "",
            is_end=run.status in FINAL and (part.is_end or not place.boot_id),
            source=source,
        )

    def _read(self, run: DetailedRun, place: Source, query: LogQuery) -> tuple[LogPart, str]:
        from_line = query.from_line
        if query.kept:
            part = LogPart(status=ReadStatus.MISSING, from_line=from_line, is_end=True)
        else:
            part = self._reader.read(place, from_line, limit=query.limit)
        if part.status is ReadStatus.LINES:
            return part, STORE if part.is_stored else EXECUTOR
        tail = run.log_tail or ""
        if from_line > 1 or not tail or not self._is_lost(part, place):
            return part, NONE
        lines = tuple(tail.removesuffix("\n").split("\n"))
        return LogPart(status=part.status, lines=lines, is_end=True), KEPT

    def _is_lost(self, part: LogPart, place: Source) -> bool:
        """Whether no executor has the log; one that is online may return it later."""
        if part.status not in (ReadStatus.SILENT, ReadStatus.STORE_AWAY):
            return part.status in (ReadStatus.MISSING, ReadStatus.STORE_LOST)
        return self._now_ms() - place.heard_at_ms > EXECUTOR_ALIVE_MS


def log_reply(answer: LogAnswer, waited: Mapping[str, str] | None = None) -> Reply:
    """Return lines of a log as JSON, or as text if the client prefers that.

    `waited` are headers that say that the request was held.
    """
    headers = dict(waited or {})
    if request.accept_mimetypes.best_match([JSON, TEXT]) != TEXT:
        return Reply(value=answer, headers=headers)
    headers |= {
        "Warren-Next-Line": str(answer.next_line),
        "Warren-Is-End": str(answer.is_end).lower(),
    }
    text = answer.text.encode(errors="replace")
    return Reply(value=text, media=f"{TEXT}; charset=utf-8", headers=headers)


def run_with_tick(
    run: DetailedRun,
    tick: TickEnd,
    calls: list[int],
    *,
    waits_for: Sequence[str],
    warnings: Sequence[str],
) -> RunWithTick:
    """Return a run, its tick's state, the runs that it has called and what it waits for."""
    fields = run_fields(run, waits_for)
    return RunWithTick(**fields, tick=tick, calls=calls, warnings=[*warnings])


def tick_answer(of: DetailedRun, runs: Sequence[Attempt]) -> TickEnd:
    """Return the state of a run's tick, given all its runs in order of shard and attempt."""
    end = tick_end(tick_of(of), runs)
    return TickEnd(
        is_over=end is not None,
        status=None if end is None else end.status.value,
        run_ids=[run.id for run in runs],
        deciding_id=None if end is None else end.deciding_id,
    )


class HeldRuns:
    """Reads runs that a token may see."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services

    def reply(
        self,
        call: Call,
        run_id: int,
        seconds: float,
        headers: dict[str, str],
        *,
        if_open: int,
        warnings: Sequence[str] = (),
    ) -> Reply | Wait:
        """Return a run; if the caller is willing to wait, only once its tick is over."""

        def reply(call: Call, more: dict[str, str]) -> tuple[Reply, bool]:
            now_ms = self._services.now_ms()
            run, tick, called, waits = self._services.database.read_autocommit(
                lambda session: _with_calls(session, call, run_id, now_ms)
            )
            status = 200 if tick.is_over else if_open
            value = run_with_tick(run, tick, called, waits_for=waits, warnings=warnings)
            return Reply(value=value, status=status, headers=headers | more), tick.is_over

        at_once, is_over = reply(call, {})
        if is_over or not seconds:
            return at_once
        waited = applied(seconds)
        return Wait(
            run_id=run_id,
            seconds=seconds,
            at_once=at_once,
            later=lambda call, _is_last: reply(call, waited)[0],
        )

    def read(self, call: Call, run_id: int) -> tuple[DetailedRun, TickEnd]:
        """Return a run and the state of its tick.

        Raises:
            NotFound: there is no such run, or the caller may not see it.

        """
        return self._services.database.read_autocommit(
            lambda session: _with_tick(session, call, run_id)
        )


def _with_tick(session: Session, call: Call, run_id: int) -> tuple[DetailedRun, TickEnd]:
    run = visible_run(session, call, run_id)
    runs = [run] if _is_alone(run) else tick_runs(session, run)
    return run, tick_answer(run, runs)


def _with_calls(
    session: Session, call: Call, run_id: int, now_ms: int
) -> tuple[DetailedRun, TickEnd, list[int], list[str]]:
    run, tick = _with_tick(session, call, run_id)
    # Nothing that has not started has called.
    called = calls.of_run(session, run) if run.started_at else []
    why = waits_for(session, [run], call.actor, now_ms=now_ms)
    return run, tick, called, in_words(why, run.id)


def visible_run(session: Session, call: Call, run_id: int) -> DetailedRun:
    """Return a run that the caller may see."""
    run = recent.run(session, run_id, call.actor.app_ids)
    if call.actor.job_ids is not None and run.job_id not in call.actor.job_ids:
        raise NotFound(LookupFailure.NO_RUN, id=run_id)
    return run


def tick_runs(session: Session, run: DetailedRun) -> Sequence[Attempt]:
    """Return all runs of a run's tick; the run itself if they were deleted meanwhile."""
    return ledger.of_run(session, run.id) or [run]


def _is_alone(run: DetailedRun) -> bool:
    """Return whether a run was the only one of its tick when it was read.

    A retry is planned in the transaction that ends the attempt before it.
    """
    is_first = run.attempt == 0 and run.rerun_of is None
    return run.status in OPEN and is_first and run.shard_total == 1


def idempotent(asked: list[Any], call: Call) -> IdempotentRequest | None:
    """Return the request with its idempotency key, if it has one; `asked` is what it asks for."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not IS_KEY(key):
        raise at_parameter("Idempotency-Key", f"expected {KEY_RULE}")
    body = msgspec.json.encode([request.path, *asked])
    return IdempotentRequest(
        user_id=call.user_id, key=key, body_hash=hashlib.sha256(body).hexdigest()
    )


#: The key in the WSGI environment of the function that holds a request, if the server has one.
HOLD = "warren.hold"
#: The key of the held request when the server calls the application again.
HELD = "warren.held"


class ApiRequest(Request):
    """A request that knows its bytes, whether its server can hold it, and whether it was held."""

    def __init__(self, environ: dict[str, Any], *args: Any, **more: Any) -> None:
        super().__init__(environ, *args, **more)
        self.hold: Callable[[HeldRequest], None] | None = environ.get(HOLD)
        self.held: HeldRequest | None = environ.get(HELD)
        #: The bytes of the path; as text, those that are no UTF-8 have been replaced.
        self.path_bytes: bytes = environ["PATH_INFO"].encode("latin-1")


class HeldConnection(Protocol):
    """The connection of a held request; no method blocks."""

    def fileno(self) -> int:
        """Return its socket, which becomes readable when the client leaves or sends more."""

    def has_left(self) -> bool:
        """Return whether the client has closed it."""

    def resume(self) -> None:
        """Call the application again."""

    def drop(self) -> None:
        """Close it without an answer."""


class Holder(Protocol):
    """Knows all held requests."""

    def begin(self, held: "HeldRequest", connection: HeldConnection) -> None:
        """Wait on this connection."""

    def end(self, held: "HeldRequest") -> None:
        """Stop waiting."""


@dataclass(eq=False, slots=True, kw_only=True)
class HeldRequest:
    """A waiting request, and its connection once the server has put it aside."""

    polling: Holder
    user_id: int
    wait: Wait
    end_at: float
    poll_at: float

    def begin(self, connection: HeldConnection) -> None:
        """Wait on this connection; the server calls it once it has put it aside."""
        self.polling.begin(self, connection)

    def cancel(self) -> None:
        """Stop holding; the server calls it if it cannot put the connection aside."""
        self.polling.end(self)


class ClientWatch:
    """Watches the sockets of waiting requests. Used from one thread."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._watched: dict[HeldRequest, HeldConnection] = {}
        #: Clients that already sent their next request; their sockets would stay readable.
        self._eager: set[HeldRequest] = set()

    def left(
        self, waiting: Mapping[HeldRequest, HeldConnection], seconds: float
    ) -> list[HeldRequest]:
        """Return the requests whose clients have left, as soon as one has."""
        fresh = waiting.keys() - self._watched.keys() - self._eager
        if closed := [held for held in fresh if not self._is_watchable(held, waiting[held])]:
            return closed
        heard = [key.data for key, _ in self._selector.select(seconds)]
        left = [held for held in heard if waiting[held].has_left()]
        for held in set(heard) - set(left):
            self.forget(held)
            self._eager.add(held)
        return left

    def _is_watchable(self, held: HeldRequest, connection: HeldConnection) -> bool:
        try:
            self._selector.register(connection, selectors.EVENT_READ, held)
        except (ValueError, OSError):
            return False  # its socket is closed
        self._watched[held] = connection
        return True

    def forget(self, held: HeldRequest) -> None:
        """Stop watching a request; its socket may be closed afterwards."""
        self._eager.discard(held)
        if connection := self._watched.pop(held, None):
            self._selector.unregister(connection)


#: For requests that must be polled one by one: polls a second in total, and each one's pause.
POLLS_PER_SECOND, POLL_PAUSE_SECONDS = 50, 0.5

log = structlog.get_logger()


class LongPolling:
    """Holds a limited number of requests; more are answered at once, not refused.

    Args:
        database: where runs are.
        places: limits how many may wait at a time.
        poll_seconds: seconds between two polls.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        database: Database,
        *,
        places: ConcurrencyLimits,
        poll_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._places = places
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._changed = threading.Condition()
        #: All requests that have a place, and those of them that are not being answered right now.
        self._held: set[HeldRequest] = set()
        self._waiting: dict[HeldRequest, HeldConnection] = {}
        self._is_looking = False
        self._is_stopped = False

    @property
    def count(self) -> int:
        """How many requests are held."""
        return len(self._held)

    def hold(self, user_id: int, wait: Wait) -> bool:
        """Have the server hold this request; return False if it must be answered at once."""
        hold = cast(ApiRequest, request).hold
        if hold is None or self._is_stopped or not self._places.take(user_id):
            return False
        now = self._clock()
        held = HeldRequest(
            polling=self,
            user_id=user_id,
            wait=wait,
            end_at=now + wait.seconds,
            poll_at=self._next_poll(now, wait),
        )
        with self._changed:
            self._held.add(held)
        hold(held)
        return True

    def answer(self, held: HeldRequest, admit: Callable[[], Call]) -> Reply | None:
        """Return the answer to a held request, if it is admitted again; None = it is held again."""
        now = self._clock()
        try:
            reply = held.wait.later(admit(), self._is_stopped or now >= held.end_at)
        except BaseException:
            self.end(held)
            raise
        if reply is not None:
            self.end(held)
            return reply
        held.poll_at = self._next_poll(now, held.wait)
        hold = cast(ApiRequest, request).hold
        assert hold is not None
        hold(held)
        return None

    def begin(self, held: HeldRequest, connection: HeldConnection) -> None:
        """Watch for the end of the tick, and for the client to leave."""
        with self._changed:
            self._waiting[held] = connection
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._look, name="waiting requests", daemon=True).start()

    def end(self, held: HeldRequest) -> None:
        """Free the place of a request."""
        with self._changed:
            self._held.discard(held)
            self._changed.notify_all()
        self._places.give_back(held.user_id)

    def stop(self, timeout: float) -> bool:
        """Answer all waiting requests with what is known, and hold no more.

        Return False if some are not answered after `timeout` seconds.
        """
        with self._changed:
            self._is_stopped = True
            return self._changed.wait_for(lambda: not self._held, timeout)

    def _next_poll(self, now: float, wait: Wait) -> float:
        if not wait.is_polled:
            return float("inf")
        with self._changed:
            polled = sum(1 for poll in self._held if poll.wait.is_polled)
        return now + max(POLL_PAUSE_SECONDS, polled / POLLS_PER_SECOND)

    def _look(self) -> None:
        """Watch until no request waits; errors are logged, and watching continues."""
        while True:
            try:
                self._watch()
            except Exception as error:  # noqa: BLE001 - the top of a loop
                log.warning("waiting_runs_not_checked", error=str(error))
                time.sleep(self._poll_seconds)
            else:
                return

    def _watch(self) -> None:
        """Watch until no request waits. Only this thread resumes and drops connections."""
        polled_at = float("-inf")
        with selectors.DefaultSelector() as selector:
            clients = ClientWatch(selector)
            while waiting := self._still_waiting():
                for held in clients.left(waiting, self._poll_seconds):
                    clients.forget(held)
                    self._taken(held).drop()
                    self.end(held)
                if self._clock() - polled_at >= self._poll_seconds:
                    for held in self._ready():
                        clients.forget(held)
                        self._taken(held).resume()
                    polled_at = self._clock()

    def _still_waiting(self) -> dict[HeldRequest, HeldConnection]:
        with self._changed:
            self._is_looking = bool(self._waiting)
            return dict(self._waiting)

    def _taken(self, held: HeldRequest) -> HeldConnection:
        with self._changed:
            return self._waiting.pop(held)

    def _ready(self) -> list[HeldRequest]:
        """Return the requests that can be answered or are to be polled."""
        with self._changed:
            waiting = list(self._waiting)
        over = set() if self._is_stopped else self._over({poll.wait.run_id for poll in waiting})
        now = self._clock()
        return [
            poll
            for poll in waiting
            if self._is_stopped or min(poll.end_at, poll.poll_at) <= now or poll.wait.run_id in over
        ]

    def _over(self, run_ids: set[int]) -> set[int]:
        try:
            return self._database.read(lambda session: ledger.over(session, run_ids))
        except Exception as error:  # noqa: BLE001 - the top of a loop
            log.warning("waiting_runs_not_checked", error=str(error))
            return set()
