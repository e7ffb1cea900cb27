"""The trace of a run, in the format of W3C Trace Context; sent along with triggers.

Ids that a client did not choose are derived from the cluster, the tick and the run. They need not
be stored: whoever knows a run can compute them.
"""

import hashlib
import re
from typing import NamedTuple

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
