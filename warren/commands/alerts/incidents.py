"""`warren incidents`: what is not as expected, and who has seen it."""

import click

from warren.actions.trigger import open_client
from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.scheduler.views.incident_view import IncidentView, incident_view
from warren.scheduler.views.to_json import to_json
from warren.settings.settings import Settings
from warren.sql.alarms import incidents as incidents_table
from warren.views.instants import read_end, read_span
from warren.views.terminal import print_json, print_table, relative, visible

HEADERS = ("id", "job", "rule", "expected", "status", "since", "opened", "seen by", "note")


@click.group()
def incidents() -> None:
    """Show and acknowledge incidents."""


@incidents.command(
    "list", epilog=examples("warren incidents list", "warren incidents list --all --json")
)
@click.option("--all", "every", is_flag=True, help="Include incidents that are closed.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most this many.",
)
@as_json
@takes_settings("database_url")
def list_incidents(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show open incidents, newest first."""
    with open_database(settings) as database:
        found = database.read(
            lambda session: incidents_table.listing(session, only_open=not every, limit=limit)
        )
        now = now_ms(database)
    rows = [incident_view(one) for one in found]
    if as_json:
        for row in rows:
            print_json(to_json(row))
        return
    nothing = "no incident" if every else "no open incident"
    print_table(HEADERS, [_line(row, now) for row in rows], nothing=nothing)


@incidents.command(epilog=examples("warren incidents show 7"))
@click.argument("incident_id", type=int)
@as_json
@takes_settings("database_url")
def show(settings: Settings, incident_id: int, as_json: bool) -> None:
    """Show an incident."""
    with open_client(settings) as client:
        commands = client.commands.incidents
        row = incident_view(
            client.database.read(lambda session: commands.read(session, incident_id))
        )
        now = now_ms(client.database)
    if as_json:
        print_json(to_json(row))
        return
    print_table(HEADERS, [_line(row, now)], nothing="")


@incidents.command(
    epilog=examples(
        'warren incidents ack 7 --note "waiting for the bank"',
        "warren incidents ack 7 --for 4h",
    )
)
@click.argument("incident_id", type=int)
@click.option("--note", default="", help="What others should know, up to 200 characters.")
@click.option("--until", help="Remind again after this time (ISO 8601). Default: never.")
@click.option("--for", "span", help="Remind again after this long: 30m, 2h, 1d.")
@takes_settings("database_url", "timezone")
def ack(
    settings: Settings, *, incident_id: int, note: str, until: str | None, span: str | None
) -> None:
    """Acknowledge an incident, so that it no longer reminds."""
    if until is not None and span is not None:
        raise click.UsageError("give only one of --until and --for")
    until_ms = None if until is None else read_end(until, zone=settings.zone)
    span_ms = None if span is None else read_span(span)
    with open_client(settings) as client:
        if span_ms is not None:
            until_ms = now_ms(client.database) + span_ms
        client.commands.incidents.acknowledge(incident_id, note=note, until_ms=until_ms)
    print(f"incident {incident_id} is acknowledged")


def _line(row: IncidentView, now: int) -> tuple[str, ...]:
    return (
        str(row.id),
        f"{row.app}/{row.job}" if row.job else row.app or "?",
        row.rule,
        row.expected,
        row.status,
        relative(row.due_at, now),
        relative(row.opened_at, now),
        visible(row.acked_by),
        visible(row.ack_note),
    )
