"""W3C's Trace Context: what is one, and the ids of runs' spans."""

import pytest

from warren.scheduler.completion.run_spans import RunTraces, TraceContext, parsed

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"


def test_a_header_is_read_and_written_as_it_was() -> None:
    context = parsed(HEADER)

    assert context == TraceContext(TRACE, SPAN, "01")
    assert context.header == HEADER
    assert len(HEADER) == 55
    assert context.is_sampled
    assert not TraceContext(TRACE, SPAN, "00").is_sampled


def test_of_a_later_version_what_is_known_is_read() -> None:
    context = parsed(f"cc-{TRACE}-{SPAN}-01-what-the-future-adds")

    assert context is not None
    assert context.header == HEADER


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "x",
        HEADER.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"{HEADER}-more",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_what_is_none_is_ignored(header: str | None) -> None:
    assert parsed(header) is None


def test_spans_follow_from_cluster_tick_and_run() -> None:
    def span(cluster: str, name: str, run_id: int, traceparent: str | None = None) -> TraceContext:
        facts = {"job_id": 1, "scheduled_at_ms": 5, "traceparent": traceparent}
        return RunTraces(cluster).span(name, run_id, **facts)  # type: ignore[arg-type]

    first, again = span("a", "run", 7), span("a", "run", 7)
    retry, other = span("a", "run", 8), span("b", "run", 7)

    assert first == again
    assert (len(first.trace_id), len(first.span_id)) == (32, 16)
    assert retry.trace_id == first.trace_id
    assert len({first.span_id, retry.span_id, other.span_id, span("a", "sent", 7).span_id}) == 4
    assert other.trace_id != first.trace_id
    assert span("a", "run", 7, HEADER) == TraceContext(TRACE, first.span_id, "01")
