"""Traces through a whole Warren: from the trigger to the handler, and as spans to a receiver."""

import subprocess
import sys

import pytest

from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.eventually import eventually
from tests.support.otlp_receiver import OtlpReceiver
from warren.scheduler.commands.triggers import Trigger
from warren.scheduler.completion.run_spans import SpanExporter
from warren.settings.settings import traced_service
from warren.sql.run_status import Kind
from warren.wiring.scheduler import span_exporter

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{SPAN}-01"
HANDLERS = """
import os
from warren import job

@job("trace")
def trace(context):
    told = os.environ.get("TRACEPARENT", "none")
    assert told == (context.traceparent or "none")
    return told

@job("fail.first")
def fail_first(context):
    if context.attempt == 0:
        context.fail(context.traceparent)
    return context.traceparent
"""


def trigger(cluster: Cluster, name: str, traceparent: str | None = None) -> int:
    [job] = cluster.jobs(name=name)
    runs = acting(cluster.database, cluster.now_ms).runs
    return runs.trigger_once(job.id, Trigger(kind=Kind.API), traceparent=traceparent)[0]


def test_a_trace_goes_along_to_the_handler_its_retries_and_children(cluster: Cluster) -> None:
    cluster.handlers.write_text(HANDLERS)
    cluster.scheduler()
    cluster.executor(processes=True)
    cluster.wait_online()
    cluster.job("child", handler="trace")
    cluster.job("parent", handler="fail.first", retries=1, children=("child",))
    cluster.job("alone", handler="trace")

    first = trigger(cluster, "parent", HEADER)
    cluster.wait_final(trigger(cluster, "alone", HEADER), 60)
    without = cluster.wait_final(trigger(cluster, "alone", "not-a-trace"), 60)
    eventually(lambda: cluster.runs(kind="PARENT"), 60)
    [child] = cluster.runs(kind="PARENT")
    child = cluster.wait_final(child.id, 60)

    attempts = cluster.runs(origin_id=first, job_id=cluster.run(first).job_id)
    assert [run.message for run in attempts] == [HEADER, HEADER]
    assert child.message == HEADER
    assert (without.traceparent, without.message) == (None, "none")


@on_memory
def test_runs_are_told_as_spans_in_their_callers_trace(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        cluster.handlers.write_text(HANDLERS)
        cluster.scheduler(spans=span_exporter(traced_service()))
        cluster.executor(processes=True)
        cluster.wait_online()
        cluster.job("good", handler="trace")
        cluster.job("bad", handler="fail.first")

        good = cluster.wait_final(trigger(cluster, "good", HEADER), 60)
        bad = cluster.wait_final(trigger(cluster, "bad"), 60)
        eventually(lambda: len(receiver.spans) == 6, 60)

        spans = receiver.by_name()
        planned, sent, ran = (spans[f"{one} demo/good"] for one in ("planned", "sent", "run"))
        assert planned.parent_span_id.hex() == SPAN
        assert sent.parent_span_id == ran.parent_span_id == planned.span_id
        assert {one.trace_id.hex() for one in (planned, sent, ran)} == {TRACE}
        assert good.message == f"00-{TRACE}-{ran.span_id.hex()}-01"
        assert ran.start_time_unix_nano == good.started_at * 1_000_000
        assert ran.end_time_unix_nano == good.finished_at * 1_000_000
        facts = {one.key: one.value for one in ran.attributes}
        assert facts["warren.run_id"].int_value == good.id
        assert facts["warren.status"].string_value == "SUCCEEDED"
        failed = spans["run demo/bad"]
        assert failed.status.code == 2
        assert failed.status.message.startswith("FAILED: 00-")
        assert failed.trace_id.hex() not in (TRACE, "")
        assert bad.message == f"00-{failed.trace_id.hex()}-{failed.span_id.hex()}-01"
        assert receiver.services == {"warren"}


@on_memory
def test_a_trace_that_its_caller_does_not_record_has_no_spans(cluster: Cluster) -> None:
    told: list[str] = []

    class Exporter(SpanExporter):
        def export(self, spans: object) -> None:
            told.extend(span.name for span in spans)  # type: ignore[attr-defined]

        def close(self) -> None:
            pass

    cluster.scheduler(spans=Exporter())
    cluster.executor()
    cluster.wait_online()
    cluster.job("quiet")
    cluster.job("loud")

    cluster.wait_final(trigger(cluster, "quiet", f"00-{TRACE}-{SPAN}-00"))
    cluster.wait_final(trigger(cluster, "loud", HEADER))
    eventually(lambda: len(told) >= 3)

    assert {name.split()[1] for name in told} == {"demo/loud"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_without_a_receiver_there_are_no_spans(environ: dict[str, str]) -> None:
    assert span_exporter(traced_service(environ)) is None


def test_without_a_receiver_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, warren.wiring.scheduler as wiring; assert wiring.span_exporter(None) is None; "
        "print(any(name.startswith('opentelemetry.sdk') for name in sys.modules))"
    )

    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )

    assert found.stdout.strip() == "False"
