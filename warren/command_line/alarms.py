"""`warren alarms` and `warren incidents`: sent and unsent alarms, and broken expectations."""

import time
from collections.abc import Sequence

import click

from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.errors import CommandError
from warren.resources import alarms as operations
from warren.resources.alarms import Alarm, Incident
from warren.resources.instant import Instant
from warren.settings.settings import Settings
from warren.terminal.output import (
    print_line,
    print_struct,
    print_table,
    read_moment,
    read_span,
    shown_ago,
)

#: How long to wait for a test: a little longer than one e-mail may take; and how often to ask.
TEST_SECONDS = 35.0
_POLL_SECONDS = 0.25
_HEADERS = ("id", "about", "cause", "run", "to", "status", "since", "tries", "next try", "error")
_INCIDENT_HEADERS = (
    *("id", "job", "rule", "expected", "status", "since", "opened", "seen by", "note"),
)
_NOBODY = (
    "nobody to alarm: expected --job, --email or --webhook, or WARREN_ALARM_EMAILS or "
    "WARREN_ALARM_WEBHOOK to be set"
)
_of_job = click.option("--job", help="Only those of this job: NAME, or APP/NAME.")
_limit = click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="At most this many.",
)


@click.group()
def alarms() -> None:
    """Show alarms, and test their targets."""


@alarms.command("list", epilog=examples("warren alarms list", "warren alarms list --all --json"))
@click.option("--all", "every", is_flag=True, help="Include alarms that were sent.")
@_limit
@as_json
@takes_settings("database_url")
def list_alarms(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show unsent alarms, newest first."""
    with connect(settings) as client:
        found, now_ms = client.alarms(all=every, limit=limit), client.now_ms()
    if as_json:
        for one in found:
            print_struct(one)
        return
    lines = [
        (
            str(one.id),
            f"{one.app or '?'}/{one.job}" if one.job else one.app or "?",
            one.cause,
            str(one.run_id or ""),
            one.target,
            one.status,
            shown_ago(one.created_at, now_ms),
            str(one.tries),
            shown_ago(one.next_try_at, now_ms),
            one.error,
        )
        for one in found
    ]
    print_table(_HEADERS, lines, nothing="no alarm" if every else "no unsent alarms")


@alarms.command(
    "test",
    epilog=examples(
        "warren alarms test --job reports/nightly",
        "warren alarms test --email ops@example.com",
        "warren alarms test",
    ),
)
@click.option("--job", help="Test where this job's alarms go, or send in its name.")
@click.option("--email", "emails", multiple=True, help="Send to this address; may be repeated.")
@click.option("--webhook", default="", help="Call this URL.")
@click.option("--style", default="", help="The format of the webhook.  [default: by its host]")
@as_json
@takes_settings("database_url")
def test(
    settings: Settings,
    *,
    job: str | None,
    emails: Sequence[str],
    webhook: str,
    style: str,
    as_json: bool,
) -> int:
    """Send a test alarm and say what the receiver answered.

    A scheduler sends it like any alarm, but immediately and only once. Without options it goes to
    WARREN_ALARM_EMAILS and WARREN_ALARM_WEBHOOK. Exit code 1 if one did not arrive.
    """
    default_emails = [email for email in (settings.alarm_emails or "").split(",") if email]
    default_webhook = settings.alarm_webhook or ""
    if job is None and not (emails or webhook or default_emails or default_webhook):
        raise CommandError(_NOBODY)
    ends = time.monotonic() + TEST_SECONDS
    with connect(settings) as client:
        tests = client.send_test_alarms(
            job=job,
            emails=emails,
            webhook=webhook,
            style=style,
            default_emails=default_emails,
            default_webhook=default_webhook,
        ).items
        while any(one.is_open for one in tests) and time.monotonic() < ends:
            time.sleep(_POLL_SECONDS)
            tests = [client.alarm(one) if one.is_open else one for one in tests]
    for one in tests:
        if as_json:
            print_struct(one)
        else:
            print_line(f"{one.target}: {_outcome(one)}")
    return int(any(one.status != "SENT" for one in tests))


def _outcome(test: Alarm) -> str:
    if test.status == "SENT":
        return f"delivered; {test.answer}"
    if test.status == "GIVEN_UP":
        return f"not delivered: {test.error}"
    return f"not delivered within {TEST_SECONDS:g} s; warren alarms list says what becomes of it"


@alarms.command(epilog=examples("warren alarms resend", "warren alarms resend --job nightly"))
@_of_job
@takes_settings("database_url")
def resend(settings: Settings, job: str | None) -> None:
    """Send all undelivered alarms again now, to their original targets."""
    with connect(settings) as client:
        print_line(f"alarms sent again: {client.resend_alarms(job=job).count}")


@alarms.command(epilog=examples("warren alarms dismiss"))
@_of_job
@takes_settings("database_url")
def dismiss(settings: Settings, job: str | None) -> None:
    """Give up all undelivered alarms, so that no page warns about them."""
    with connect(settings) as client:
        print_line(f"alarms dismissed: {client.dismiss_alarms(job=job).count}")


@click.group()
def incidents() -> None:
    """Show and acknowledge incidents."""


@incidents.command(
    "list", epilog=examples("warren incidents list", "warren incidents list --all --json")
)
@click.option("--all", "every", is_flag=True, help="Include incidents that are closed.")
@_limit
@as_json
@takes_settings("database_url")
def list_incidents(settings: Settings, every: bool, limit: int, as_json: bool) -> None:
    """Show open incidents, newest first."""
    with connect(settings) as client:
        found, now_ms = client.incidents(all=every, limit=limit), client.now_ms()
    nothing = "no incident" if every else "no open incident"
    _print_incidents(found, now_ms, nothing, as_json=as_json)


@incidents.command(help=operations.show_incident.about, epilog=examples("warren incidents show 7"))
@click.argument("incident_id", type=int)
@as_json
@takes_settings("database_url")
def show(settings: Settings, incident_id: int, as_json: bool) -> None:
    with connect(settings) as client:
        found, now_ms = client.incident(incident_id), client.now_ms()
    _print_incidents([found], now_ms, "", as_json=as_json)


def _print_incidents(
    found: Sequence[Incident], now_ms: int, nothing: str, *, as_json: bool
) -> None:
    if as_json:
        for one in found:
            print_struct(one)
        return
    lines = [
        (
            str(one.id),
            f"{one.app}/{one.job}" if one.job else one.app,
            one.rule,
            one.expected,
            one.status,
            shown_ago(one.due_at, now_ms),
            shown_ago(one.opened_at, now_ms),
            one.acked_by,
            one.ack_note,
        )
        for one in found
    ]
    print_table(_INCIDENT_HEADERS, lines, nothing=nothing)


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
    end = None if until is None else Instant.of(read_moment(until, "--until", zone=settings.zone))
    length_ms = None if span is None else read_span(span)
    with connect(settings) as client:
        if length_ms is not None:
            end = Instant.of(client.now_ms() + length_ms)
        client.acknowledge_incident(incident_id, note=note, until=end)
    print_line(f"incident {incident_id} is acknowledged")
