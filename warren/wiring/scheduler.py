"""Makes a scheduler from the settings.

Spans of runs are exported if OpenTelemetry is installed and a receiver is set. OpenTelemetry is
imported only for that, and its own environment variables configure it.
"""

import socket
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from warren.broker.signing import ClusterKeys
from warren.broker.transport import Transport
from warren.log_store import make_log_store
from warren.route_plugins import load_routes
from warren.scheduler.alarms.addresses import MailServer, WebhookAllowList
from warren.scheduler.alarms.events import AlarmPolicy, AlarmTargets
from warren.scheduler.completion.run_spans import Span, SpanExporter
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.scheduler.roles import NodeOptions, Roles
from warren.settings.settings import Settings, traced_service
from warren.sql.engine import Database

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


def make_scheduler(
    settings: Settings, database: Database, transport: Transport, keys: ClusterKeys
) -> SchedulerNode:
    """Return a scheduler that is not started yet.

    Raises:
        SettingsError: the log store cannot be used with these settings.

    """
    return SchedulerNode(
        Roles(
            host=socket.gethostname(),
            database=database,
            transport=transport,
            keys=keys,
            options=NodeOptions(
                timezone=settings.timezone,
                quorum=settings.wants_quorum,
                alarms=alarm_policy(settings),
                added_routes=load_routes(),
                run_retention_days=settings.run_retention_days,
                timeouts=Timeouts(no_executor=settings.no_executor_seconds),
                metrics_jobs=settings.metrics_jobs,
                spans=span_exporter(traced_service()),
                log_store=make_log_store(settings),
            ),
        )
    )


def alarm_policy(settings: Settings) -> AlarmPolicy:
    return AlarmPolicy(
        defaults=AlarmTargets(
            emails=tuple(email for email in (settings.alarm_emails or "").split(",") if email),
            webhook=settings.alarm_webhook or "",
            secret=settings.alarm_secret or "",
        ),
        mail_server=MailServer.parse(settings.smtp_url) if settings.smtp_url else None,
        webhook_allow=WebhookAllowList.parse(settings.webhook_allow or ""),
        per_hour=settings.alarm_limit,
        absence_seconds=settings.absence_seconds,
        console_url=settings.console_url or "",
        timezone=settings.timezone,
        heartbeat_url=settings.heartbeat_url or "",
    )
