"""What the API answers about a run: its row, the state of its tick, and its log.

A view whose answer may come later returns a `Wait` instead.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from flask import request

from warren.admin_web.api.endpoint import JSON, TEXT, Call, Reply
from warren.admin_web.api.openapi import answer_type
from warren.admin_web.api.problem_answers import at_parameter
from warren.admin_web.run_logs import LogPart, LogReader, ReadStatus, Source
from warren.broker.messages.values import Progress
from warren.broker.rpc import Requester
from warren.scheduler.completion.end import Attempt, tick_end
from warren.scheduler.views.to_json import PAGES_ONLY, run_json
from warren.sql.listings.recent import DetailedRun
from warren.sql.registry.presence import EXECUTOR_ALIVE_MS
from warren.sql.run_status import FINAL
from warren.sql.runs.ticks import tick_of

#: The most seconds that a request waits.
LONGEST_SECONDS = 60


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


EXECUTOR, KEPT, NONE = "executor", "kept", "none"


class LogAnswer(msgspec.Struct, kw_only=True):
    """Lines of a log; `is_end`: the run is over and nothing follows.

    `source` is `executor`, `kept` if only the end stored with the run is available, or `none`.
    The lines of a kept end have other numbers than in the log, so all of it is returned, up to 4 kB
    whatever the `limit` is, and only if `from_line` is 1.
    """

    from_line: int
    next_line: int
    text: str
    is_end: bool
    source: str


class RunLogAnswers:
    """Reads run logs."""

    def __init__(self, requester: Requester | None, now_ms: Callable[[], int]) -> None:
        self._reader = LogReader(requester)
        self._now_ms = now_ms

    def read(self, run: DetailedRun, place: Source, from_line: int, limit: int) -> LogAnswer:
        """Return up to `limit` lines from a line on."""
        part, source = self._read(run, place, from_line, limit)
        return LogAnswer(
            from_line=part.from_line,
            next_line=part.next_line,
            text="\n".join(part.lines) + "\n" if part.lines else "",
            is_end=run.status in FINAL and (part.is_end or not place.boot_id),
            source=source,
        )

    def _read(
        self, run: DetailedRun, place: Source, from_line: int, limit: int
    ) -> tuple[LogPart, str]:
        part = self._reader.read(place, from_line, limit=limit)
        if part.status is ReadStatus.LINES:
            return part, EXECUTOR
        tail = run.log_tail or ""
        if from_line > 1 or not tail or not self._is_lost(part, place):
            return part, NONE
        lines = tuple(tail.removesuffix("\n").split("\n"))
        return LogPart(status=part.status, lines=lines, is_end=True), KEPT

    def _is_lost(self, part: LogPart, place: Source) -> bool:
        """Whether no executor has the log; one that is online may return it later."""
        if part.status is not ReadStatus.SILENT:
            return part.status is ReadStatus.MISSING
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


class TickEnd(msgspec.Struct, kw_only=True):
    """The state of a run's whole tick: all shards with all attempts.

    `status` is null until it is over; then SUCCEEDED, or the status of the first shard that did not
    succeed, or LOST if a shard's run no longer exists. `run_ids` are in order of shard and attempt.
    `deciding_id` is the run that decided: the newest of the first shard that did not succeed, or of
    the first shard.
    """

    is_over: bool
    status: str | None
    run_ids: list[int]
    deciding_id: int | None


#: `result` is what the handler returned; `progress` is the last that it reported; `waits_for` are
#: the full limits that it waits for, each with who holds it.
_MORE: dict[str, Any] = {"result": Any, "progress": Progress | None, "waits_for": list[str]}
RunAnswer: Any = answer_type("Run", DetailedRun, without=PAGES_ONLY, more=_MORE)
#: A run with the state of its tick, and the ids of the runs that its handler has called. `warnings`
#: are those of the trigger that is answered: what could not be checked.
RunWithTick: Any = answer_type(
    "RunWithTick",
    DetailedRun,
    without=PAGES_ONLY,
    more=_MORE | {"tick": TickEnd, "calls": list[int], "warnings": list[str]},
)


def run_answer(run: DetailedRun, waits_for: Sequence[str] = ()) -> Any:
    """Return a run, and what it waits for, as an answer."""
    return RunAnswer(**run_json(run, waits_for))


def run_with_tick(
    run: DetailedRun,
    tick: TickEnd,
    calls: list[int],
    *,
    waits_for: Sequence[str],
    warnings: Sequence[str],
) -> Any:
    """Return a run, its tick's state, the runs that it has called and what it waits for."""
    more = {"tick": tick, "calls": calls, "warnings": [*warnings]}
    return RunWithTick(**run_json(run, waits_for), **more)


def tick_answer(of: DetailedRun, runs: Sequence[Attempt]) -> TickEnd:
    """Return the state of a run's tick, given all its runs in order of shard and attempt."""
    end = tick_end(tick_of(of), runs)
    return TickEnd(
        is_over=end is not None,
        status=None if end is None else end.status.value,
        run_ids=[run.id for run in runs],
        deciding_id=None if end is None else end.deciding_id,
    )
