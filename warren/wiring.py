"""Makes the parts of each process from the settings; the one place where they meet."""

import socket
from collections.abc import Sequence
from functools import partial

from broker.transport import BrokerSettings, Transport
from executor.agent import Executor
from executor.premises import Limits
from executor.runlog import RunLogs
from executor.slotpool import SlotsFactory
from executor.slots import Slots
from scheduler.alarms.mail_server import MailServer
from scheduler.alarms.policy import AlarmPolicy, AlarmTargets
from scheduler.loop import Loop
from scheduler.node import SchedulerNode
from sql.engine import Database
from warren.added_routes import load_routes
from warren.settings import Settings

#: How often run logs that are too old are looked for.
CLEANING_SECONDS = 3_600.0


def connect_broker(settings: Settings) -> Transport:
    """Return a transport to the RabbitMQ of the settings; nothing is connected yet."""
    # `warren up` needs neither pika nor its 10 MB.
    from broker.amqp import connect  # noqa: PLC0415

    urls = tuple(url.strip() for url in (settings.broker_url or "").split(","))
    return connect(BrokerSettings(urls=urls, quorum=settings.quorum))


def make_scheduler(
    settings: Settings, database: Database, transport: Transport, secret: str
) -> SchedulerNode:
    """Return a scheduler that is not started yet."""
    return SchedulerNode(
        host=socket.gethostname(),
        database=database,
        transport=transport,
        secret=secret,
        timezone=settings.timezone,
        quorum=settings.quorum,
        alarms=alarm_policy(settings),
        added_routes=load_routes(),
        run_retention_days=settings.run_retention_days,
    )


def alarm_policy(settings: Settings) -> AlarmPolicy:
    """Return how the settings want failures to be told."""
    return AlarmPolicy(
        defaults=AlarmTargets(
            emails=tuple(email for email in (settings.alarm_emails or "").split(",") if email),
            webhook=settings.alarm_webhook or "",
        ),
        mail_server=MailServer.parse(settings.smtp_url) if settings.smtp_url else None,
        per_hour=settings.alarm_limit,
        absence_seconds=settings.absence_seconds,
        console_url=settings.console_url or "",
        timezone=settings.timezone,
    )


def make_slots(settings: Settings, sources: Sequence[str], run_logs: RunLogs) -> SlotsFactory:
    """Return what makes the job processes of one executor."""
    return partial(
        Slots,
        sources=sources,
        count=settings.slots,
        run_logs=run_logs,
        grace_seconds=settings.grace_seconds,
        script_languages=settings.script_languages,
    )


def make_executor(
    settings: Settings,
    *,
    app: str,
    address: str,
    transport: Transport,
    secret: str,
    slots: SlotsFactory,
) -> Executor:
    """Return an executor that is not started yet."""
    return Executor(
        app=app,
        address=address,
        transport=transport,
        secret=secret,
        make_slots=slots,
        run_logs=RunLogs(settings.log_dir),
        state_dir=settings.state_dir,
        limits=Limits(
            slots=settings.slots,
            grace_seconds=settings.grace_seconds,
            drain_seconds=settings.drain_seconds,
            cpu_limit=settings.cpu_limit,
            memory_limit=settings.memory_limit,
        ),
    )


def make_log_cleaner(settings: Settings) -> Loop:
    """Return the role that deletes run logs past their time; it is not started yet."""
    logs = RunLogs(settings.log_dir)

    def tick() -> float:
        logs.clean(settings.log_retention_days)
        return CLEANING_SECONDS

    return Loop("log cleaner", tick, longest_seconds=CLEANING_SECONDS)
