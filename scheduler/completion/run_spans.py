"""The trace of a run, sent along with its trigger; finished runs are exported to OpenTelemetry.

The format is that of W3C Trace Context. Ids that a client did not choose are derived from the
cluster, the tick and the run. They need not be stored: whoever knows a run can compute them.

Spans say how long each run was planned, in transit, and running. They are exported after the
commit, on a best effort: a crash may lose spans, but never a run.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from warren.broker.messages import Trigger
from warren.scheduler.completion.completion import Tally
from warren.sql.engine import Database
from warren.sql.run_status import RunStatus
from warren.sql.runs import queries
from warren.sql.runs.run_rows import TracedRun

_FORM = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED = 1


class TraceContext(NamedTuple):
    """A span of a trace, as lower-case hexadecimal digits."""

    trace_id: str
    span_id: str
    flags: str = "01"

    @property
    def header(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    @property
    def is_sampled(self) -> bool:
        """Whether the trace is recorded by whoever started it."""
        return bool(int(self.flags, 16) & _SAMPLED)


def parsed(header: str | None) -> TraceContext | None:
    """Return the content of a `traceparent`; None if it is invalid and must be ignored."""
    match = _FORM.fullmatch((header or "").strip())
    if match is None or (match[4] and header and header.strip().startswith("00")):
        return None
    return TraceContext(match[1], match[2], match[3])


class RunTraces:
    """The spans of a cluster's runs."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id

    def span(
        self, name: str, run_id: int, *, job_id: int, scheduled_at_ms: int, traceparent: str | None
    ) -> TraceContext:
        """Return a span of a run: in the trace that triggered it, else in that of its tick."""
        caller = parsed(traceparent)
        trace_id = caller.trace_id if caller else self._digest(32, "tick", job_id, scheduled_at_ms)
        span_id = self._digest(16, name, run_id)
        return TraceContext(trace_id, span_id, caller.flags if caller else "01")

    def _digest(self, length: int, *what: object) -> str:
        text = "/".join(map(str, (self._cluster_id, *what)))
        return hashlib.sha256(text.encode()).hexdigest()[:length]


#: The most runs that wait to be exported; beyond that the oldest are dropped.
MAX_WAITING = 10_000
BATCH = 200
ROUND_SECONDS = 1.0
_MESSAGE_LENGTH = 200
_RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One part of a run's life; instants are epoch milliseconds. `error` "" = none."""

    name: str
    context: TraceContext
    parent: TraceContext | None
    start_ms: int
    end_ms: int
    error: str = ""
    attributes: dict[str, str | int] = field(default_factory=dict)


class SpanExporter(Protocol):
    def export(self, spans: Sequence[Span]) -> None:
        """Queue spans to be sent later, on a best effort."""

    def close(self) -> None:
        """Send what is queued, with a short time limit."""


class RunSpans:
    """The role that exports spans; nothing waits for it."""

    def __init__(self, database: Database, cluster_id: str, exporter: SpanExporter) -> None:
        self._database = database
        self._exporter = exporter
        self._traces = RunTraces(cluster_id)
        self._waiting: deque[int] = deque(maxlen=MAX_WAITING)

    def stamp(self, trigger: Trigger) -> Trigger:
        """Return a trigger that makes the run's span the parent of its handler's spans."""
        context = self._traces.span(
            _RUN,
            trigger.run_id,
            job_id=trigger.job_id,
            scheduled_at_ms=trigger.scheduled_at_ms,
            traceparent=trigger.traceparent,
        )
        return msgspec.structs.replace(trigger, traceparent=context.header)

    def note(self, tally: Tally) -> None:
        """Record finished runs."""
        self._waiting.extend(tally.won)

    def run_round(self, _now_ms: int) -> float:
        """Export some of them; return the seconds until the next round, 0 if there is more."""
        some = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
        if not some:
            return ROUND_SECONDS
        rows = self._database.read(lambda session: queries.traced(session, some))
        self._exporter.export([span for row in rows for span in self.spans_of(row)])
        return 0.0 if self._waiting else ROUND_SECONDS

    def close(self) -> None:
        """Export the rest."""
        self._exporter.close()

    def spans_of(self, run: TracedRun) -> Iterator[Span]:
        """Yield the spans of a run; none if its trigger's trace is not recorded."""
        planned, sent, ran = (self._context(name, run) for name in ("planned", "sent", _RUN))
        if not planned.is_sampled:
            return
        over = run.finished_at or run.due_at
        routed, started = run.routed_at, run.started_at
        error = "" if run.status == RunStatus.SUCCEEDED else _error(run)
        yield _span(
            run, planned, parsed(run.traceparent), (run.due_at, routed or over), name="planned"
        )
        if routed is not None:
            # The sent time is recorded late: a short run may already be over by then.
            yield _span(run, sent, planned, (routed, started or run.sent_at or over), name="sent")
        if started is not None:
            yield _span(run, ran, planned, (started, over), name=_RUN, error=error)

    def _context(self, name: str, run: TracedRun) -> TraceContext:
        return self._traces.span(
            name,
            run.id,
            job_id=run.job_id,
            scheduled_at_ms=run.scheduled_at,
            traceparent=run.traceparent,
        )


def _span(
    run: TracedRun,
    context: TraceContext,
    parent: TraceContext | None,
    stretch: tuple[int, int],
    *,
    name: str,
    error: str = "",
) -> Span:
    start_ms, end_ms = stretch
    attributes: dict[str, str | int | None] = {
        "warren.app": run.app,
        "warren.job": run.job,
        "warren.run_id": run.id,
        "warren.kind": run.kind,
        "warren.status": run.status,
        "warren.attempt": run.starts,
        "warren.shard_index": run.shard_index,
        "warren.address": run.address,
    }
    return Span(
        name=f"{name} {run.app}/{run.job}",
        context=context,
        parent=parent,
        start_ms=start_ms,
        end_ms=max(start_ms, end_ms),
        error=error,
        attributes={name: value for name, value in attributes.items() if value is not None},
    )


def _error(run: TracedRun) -> str:
    return f"{run.status}: {run.message or ''}"[:_MESSAGE_LENGTH]
