"""Makes a scheduler from the settings."""

import socket

from warren.broker.keys import ClusterKeys
from warren.broker.transport import Transport
from warren.route_plugins import load_routes
from warren.scheduler.alarms.channels.mail_server import MailServer
from warren.scheduler.alarms.channels.webhook_allow_list import WebhookAllowList
from warren.scheduler.alarms.policy import AlarmPolicy, AlarmTargets
from warren.scheduler.node import SchedulerNode
from warren.scheduler.options import NodeOptions
from warren.scheduler.roles import Roles
from warren.scheduler.timeouts import Timeouts
from warren.settings.settings import Settings
from warren.settings.telemetry import traced_service
from warren.sql.engine import Database
from warren.wiring.tracing import span_exporter


def make_scheduler(
    settings: Settings, database: Database, transport: Transport, keys: ClusterKeys
) -> SchedulerNode:
    """Return a scheduler that is not started yet."""
    return SchedulerNode(
        Roles(
            host=socket.gethostname(),
            database=database,
            transport=transport,
            keys=keys,
            options=NodeOptions(
                timezone=settings.timezone,
                quorum=settings.quorum,
                alarms=alarm_policy(settings),
                added_routes=load_routes(),
                run_retention_days=settings.run_retention_days,
                timeouts=Timeouts(no_executor=settings.no_executor_seconds),
                metrics_jobs=settings.metrics_jobs,
                spans=span_exporter(traced_service()),
            ),
        )
    )


def alarm_policy(settings: Settings) -> AlarmPolicy:
    """Return the alarm settings."""
    return AlarmPolicy(
        defaults=AlarmTargets(
            emails=tuple(email for email in (settings.alarm_emails or "").split(",") if email),
            webhook=settings.alarm_webhook or "",
        ),
        mail_server=MailServer.parse(settings.smtp_url) if settings.smtp_url else None,
        webhook_allow=WebhookAllowList.parse(settings.webhook_allow or ""),
        per_hour=settings.alarm_limit,
        absence_seconds=settings.absence_seconds,
        console_url=settings.console_url or "",
        timezone=settings.timezone,
        heartbeat_url=settings.heartbeat_url or "",
    )
