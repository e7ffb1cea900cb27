"""`warren broker …`: what people do with the queues of RabbitMQ."""

import click

from warren.broker.errors import BrokerError
from warren.command_line.check import is_embedded
from warren.command_options import examples, takes_settings
from warren.database_access import durable_queues, open_database, registrations
from warren.errors import CommandError
from warren.settings.setting_rules import MEMORY_BROKER
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.registry import presence
from warren.sql.registry.presence import state
from warren.sql.runs import queries
from warren.wiring.processes import broker_settings

#: How many processes a line names.
NAMED = 10


@click.group()
def broker() -> None:
    """Change the queues of RabbitMQ."""


@broker.command("migrate-queues", epilog=examples("warren broker migrate-queues"))
@takes_settings("database_url", "broker_url")
def migrate_queues(settings: Settings) -> None:
    """Convert classic queues to quorum queues, while no other Warren process runs.

    Pause dispatch and wait until no run is open, then stop executors, gateways and schedulers. If
    one of them runs, a run is open or a queue has messages, nothing is changed. If the command is
    interrupted, run it again.
    """
    # Imported here, as for `warren check`: pika is slow to load.
    from warren.broker.rabbitmq.queue_kinds import open_kinds  # noqa: PLC0415

    if settings.broker_url == MEMORY_BROKER or is_embedded(settings):
        raise CommandError("the broker inside `warren up` has no quorum queues")
    if settings.broker_url is None:
        raise CommandError("WARREN_BROKER_URL is not set")
    if not settings.wants_quorum:
        raise CommandError(
            "new queues would still be classic ones: set WARREN_QUORUM=true everywhere, "
            "or name all hosts of the cluster in WARREN_BROKER_URL"
        )
    with open_database(settings, for_writing=True) as database:
        refuse_unless_still(database)
        queues = durable_queues(database)
        try:
            with open_kinds(broker_settings(settings)) as kinds:
                changed = kinds.make_quorum(queues)
        except BrokerError as error:
            raise CommandError(str(error)) from error
    for name in changed:
        print(f"{name} is a quorum queue now")
    if not changed:
        print("all queues are already quorum queues")


def refuse_unless_still(database: Database) -> None:
    """Refuse if a scheduler or an executor is online, or a run is open."""
    nodes, now_ms = registrations(database, presence.ADMIN)
    boots, _ = registrations(database, presence.EXECUTOR)
    if names := [row.address for row in nodes if state(row, now_ms).is_online]:
        raise CommandError(f"stop these schedulers first: {', '.join(names[:NAMED])}")
    if names := [f"{row.app}/{row.address}" for row in boots if state(row, now_ms).is_online]:
        raise CommandError(f"stop these executors first: {', '.join(names[:NAMED])}")
    if open_runs := sum(database.read(queries.in_flight).values()):
        raise CommandError(
            f"open runs: {open_runs}; start schedulers and executors, "
            "and stop them once these runs have ended"
        )
