"""A run's log, as the API returns it: from its executor, or the end that is stored with the run."""

from collections.abc import Callable, Mapping

import msgspec
from flask import request

from warren.admin_web.api.endpoint import JSON, TEXT, Reply
from warren.admin_web.logs.log_reader import LogPart, LogReader, ReadStatus
from warren.admin_web.logs.log_source import Source
from warren.broker.rpc import Requester
from warren.sql.listings.recent import DetailedRun
from warren.sql.registry.liveness import EXECUTOR_ALIVE_MS
from warren.sql.run_status import FINAL

EXECUTOR, KEPT, NONE = "executor", "kept", "none"


class LogAnswer(msgspec.Struct, kw_only=True):
    """Lines of a log; `is_end`: the run is over and nothing follows.

    `source` is `executor`, `kept` if only the end stored with the run is available, or `none`.
    The lines of a kept end have other numbers than in the log, so it comes whole, at most 4 kB
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
