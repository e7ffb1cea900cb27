"""`warren alarms` and `warren incidents`: sent and unsent alarms, and broken expectations."""

import click

from warren.actions.trigger import open_client
from warren.command_options import as_json, examples, takes_settings
from warren.database_access import now_ms, open_database
from warren.errors import CommandError
from warren.scheduler.alarms.events import AlarmTargets
from warren.scheduler.views.incident_view import IncidentView, incident_view
from warren.scheduler.views.to_json import AlarmView, alarm_view, to_json
from warren.settings.settings import Settings
from warren.sql.alarms import alarm_listing
from warren.sql.alarms import incidents as incidents_table
from warren.sql.alarms.alarm_listing import AlarmFilter
from warren.sql.alarms.alarms import UNSENT, AlarmStatus
from warren.views.instants import read_moment, read_span
from warren.views.terminal import print_json, print_table, relative, visible

HEADERS = ("id", "about", "cause", "run", "to", "status", "since", "tries", "next try", "error")
#: How long to wait for a test: a little longer than one e-mail may take.
TEST_SECONDS = 35.0
_NOBODY = (
    "nobody to alarm: expected --job, --email or --webhook, or WARREN_ALARM_EMAILS or "
    "WARREN_ALARM_WEBHOOK to be set"
)
_of_job = click.option("--job", help="Only those of this job: NAME, or APP/NAME.")


@click.group()
def alarms() -> None:
    """Show alarms, and test their targets."""


@alarms.command("list", epilog=examples("warren alarms list", "warren alarms list --all --json"))
@click.option("--all", "every", is_flag=True, help="Include alarms that were sent.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most this many.",
)
@as_json
@takes_settings("database_url")
def list_alarms(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show unsent alarms, newest first."""
    statuses = tuple(AlarmStatus) if every else UNSENT
    with open_database(settings) as database:
        now = now_ms(database)
        wanted = AlarmFilter(statuses=statuses, limit=limit)
        listed = database.read(lambda session: alarm_listing.listing(session, wanted, now_ms=now))
    rows = [alarm_view(alarm) for alarm in listed]
    if as_json:
        for row in rows:
            print_json(to_json(row))
        return
    lines = [_line(row, now) for row in rows]
    print_table(HEADERS, lines, nothing="no alarm" if every else "no unsent alarms")


@alarms.command(
    "test",
    epilog=examples(
        "warren alarms test --job reports/nightly",
        "warren alarms test --email ops@example.com",
        "warren alarms test",
    ),
)
@click.option("--job", help="Test where alarms of this job go, or send as if from it.")
@click.option("--email", "emails", multiple=True, help="Send to this address; may be repeated.")
@click.option("--webhook", default="", help="Call this URL.")
@click.option("--style", default="", help="The format of the webhook.  [default: by its host]")
@as_json
@takes_settings("database_url")
def test(  # noqa: PLR0917 - click passes its parameters by name
    settings: Settings,
    job: str | None,
    emails: tuple[str, ...],
    webhook: str,
    style: str,
    as_json: bool,
) -> None:
    """Send a test alarm and say what the receiver answered.

    A scheduler sends it, at once and once, as it sends alarms. Without options it goes to
    WARREN_ALARM_EMAILS and WARREN_ALARM_WEBHOOK. Exit code 1 if one did not arrive.
    """
    targets = AlarmTargets(emails=emails, webhook=webhook, style=style)
    listed = filter(None, (settings.alarm_emails or "").split(","))
    defaults = AlarmTargets(emails=tuple(listed), webhook=settings.alarm_webhook or "")
    with open_client(settings) as client:
        tests = client.commands.alarms
        if job is not None:
            ids = tests.test_job(client.ids.job(job), targets, defaults=defaults)
        elif targets or defaults:
            ids = tests.test(targets or defaults)
        else:
            raise CommandError(_NOBODY)
        views = [alarm_view(alarm) for alarm in tests.wait_for_tests(ids, TEST_SECONDS)]
    for alarm in views:
        if as_json:
            print_json(to_json(alarm))
        else:
            print(visible(f"{alarm.target}: {_outcome(alarm)}"))
    if any(alarm.status != AlarmStatus.SENT for alarm in views):
        raise SystemExit(1)


@alarms.command(epilog=examples("warren alarms resend", "warren alarms resend --job nightly"))
@_of_job
@takes_settings("database_url")
def resend(settings: Settings, job: str | None) -> None:
    """Send all undelivered alarms again now, to their original targets."""
    with open_client(settings) as client:
        wanted = AlarmFilter(limit=1, job_id=client.ids.job(job) if job else None)
        print(f"alarms sent again: {client.commands.alarms.send_again(wanted)}")


@alarms.command(epilog=examples("warren alarms dismiss"))
@_of_job
@takes_settings("database_url")
def dismiss(settings: Settings, job: str | None) -> None:
    """Give up all undelivered alarms, so that no page warns about them."""
    with open_client(settings) as client:
        wanted = AlarmFilter(limit=1, job_id=client.ids.job(job) if job else None)
        print(f"alarms dismissed: {client.commands.alarms.dismiss(wanted)}")


def _outcome(test: AlarmView) -> str:
    if test.status == AlarmStatus.SENT:
        return f"delivered; {test.answer}"
    if test.status == AlarmStatus.GIVEN_UP:
        return f"not delivered: {test.error}"
    return f"not delivered within {TEST_SECONDS:g} s; warren alarms list says what becomes of it"


def _line(row: AlarmView, now: int) -> tuple[str, ...]:
    about = f"{row.app or '?'}/{row.job}" if row.job else row.app or "?"
    return (
        str(row.id),
        about,
        row.cause,
        str(row.run_id or ""),
        visible(row.target),
        row.status,
        relative(row.created_at, now),
        str(row.tries),
        relative(row.next_try_at, now),
        visible(row.error),
    )


INCIDENT_HEADERS = ("id", "job", "rule", "expected", "status", "since", "opened", "seen by", "note")


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
        listed = database.read(
            lambda session: incidents_table.listing(session, only_open=not every, limit=limit)
        )
        now = now_ms(database)
    rows = [incident_view(incident) for incident in listed]
    if as_json:
        for row in rows:
            print_json(to_json(row))
        return
    nothing = "no incident" if every else "no open incident"
    print_table(INCIDENT_HEADERS, [_incident_line(row, now) for row in rows], nothing=nothing)


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
    print_table(INCIDENT_HEADERS, [_incident_line(row, now)], nothing="")


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
    """Acknowledge an incident, so that no more reminders are sent."""
    if until is not None and span is not None:
        raise click.UsageError("give only one of --until and --for")
    until_ms = None if until is None else read_moment(until, "--until", zone=settings.zone)
    span_ms = None if span is None else read_span(span)
    with open_client(settings) as client:
        if span_ms is not None:
            until_ms = now_ms(client.database) + span_ms
        client.commands.incidents.acknowledge(incident_id, note=note, until_ms=until_ms)
    print(f"incident {incident_id} is acknowledged")


def _incident_line(row: IncidentView, now: int) -> tuple[str, ...]:
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
