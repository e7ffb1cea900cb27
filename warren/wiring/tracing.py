"""Exports spans of runs to OpenTelemetry, if it is installed and a receiver is set.

OpenTelemetry is imported only for that. Its own environment variables configure it.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from warren.scheduler.completion.run_spans import Span, SpanExporter

_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
_FLUSH_MS = 3_000
_NANOSECONDS = 1_000_000


def span_exporter(service: str | None) -> SpanExporter | None:
    """Return the exporter for a service; None without a service or the extra `otel`."""
    return OpenTelemetry(service) if service and _is_installed() else None


def _is_installed() -> bool:
    try:
        return find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        return False


class OpenTelemetry:
    """OpenTelemetry's SDK; its own thread sends batches by OTLP over HTTP."""

    def __init__(self, service: str) -> None:
        sdk = import_module("opentelemetry.sdk.trace")
        resources = import_module("opentelemetry.sdk.resources")
        batches = import_module("opentelemetry.sdk.trace.export")
        self._sdk: Any = sdk
        self._api: Any = import_module("opentelemetry.trace")
        self._resource = resources.Resource.create({"service.name": service})
        self._processor = batches.BatchSpanProcessor(import_module(_EXPORTER).OTLPSpanExporter())

    def export(self, spans: Sequence[Span]) -> None:
        """Hand spans to the thread that sends them."""
        for span in spans:
            self._processor.on_end(self._readable(span))

    def close(self) -> None:
        """Send the remaining spans, for three seconds at most."""
        self._processor.force_flush(_FLUSH_MS)
        self._processor.shutdown()

    def _readable(self, span: Span) -> Any:
        api = self._api
        code = api.StatusCode.ERROR if span.error else api.StatusCode.UNSET
        return self._sdk.ReadableSpan(
            name=span.name,
            context=self._context(span.context),
            parent=self._context(span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.attributes,
            kind=api.SpanKind.INTERNAL,
            status=api.Status(code, span.error or None),
            start_time=span.start_ms * _NANOSECONDS,
            end_time=span.end_ms * _NANOSECONDS,
        )

    def _context(self, context: Any) -> Any:
        return self._api.SpanContext(
            trace_id=int(context.trace_id, 16),
            span_id=int(context.span_id, 16),
            is_remote=True,
            trace_flags=self._api.TraceFlags(int(context.flags, 16)),
        )
