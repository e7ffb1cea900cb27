"""`warren alarms` and `warren incidents`: sent and unsent alarms, and broken expectations."""

import time
from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.errands.sending import open_sender, send
from warren.settings.settings import Settings
from warren.terminal.output import print_output

#: How long to wait for a test: a little longer than one e-mail may take; and how often to ask.
TEST_SECONDS = 35.0
_POLL_SECONDS = 0.25
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
def list_alarms(settings: Settings, **wanted: Any) -> int:
    """Show unsent alarms, newest first."""
    return send(settings, "alarms.list", **wanted)


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
def test(settings: Settings, *, as_json: bool, **wanted: Any) -> int:
    """Send a test alarm and say what the receiver answered.

    A scheduler sends it, at once and once, as it sends alarms. Without options it goes to
    WARREN_ALARM_EMAILS and WARREN_ALARM_WEBHOOK. Exit code 1 if one did not arrive.
    """
    emails = [email for email in (settings.alarm_emails or "").split(",") if email]
    defaults = {"default_emails": emails, "default_webhook": settings.alarm_webhook or ""}
    with open_sender(settings) as sender:
        ids = sender.send("alarms.test", **wanted, **defaults).facts["ids"]
        ends = time.monotonic() + TEST_SECONDS
        asked = {"ids": ids, "seconds": TEST_SECONDS, "as_json": as_json}
        while not (tested := sender.send("alarms.tested", **asked)).facts["is_over"]:
            if time.monotonic() >= ends:
                break
            time.sleep(_POLL_SECONDS)
    print_output(tested)
    return tested.status


@alarms.command(epilog=examples("warren alarms resend", "warren alarms resend --job nightly"))
@_of_job
@takes_settings("database_url")
def resend(settings: Settings, job: str | None) -> int:
    """Send all undelivered alarms again now, to their original targets."""
    return send(settings, "alarms.resend", job=job)


@alarms.command(epilog=examples("warren alarms dismiss"))
@_of_job
@takes_settings("database_url")
def dismiss(settings: Settings, job: str | None) -> int:
    """Give up all undelivered alarms, so that no page warns about them."""
    return send(settings, "alarms.dismiss", job=job)


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
def list_incidents(settings: Settings, **wanted: Any) -> int:
    """Show open incidents, newest first."""
    return send(settings, "incidents.list", **wanted)


@incidents.command(epilog=examples("warren incidents show 7"))
@click.argument("incident_id", type=int)
@as_json
@takes_settings("database_url")
def show(settings: Settings, **wanted: Any) -> int:
    """Show an incident."""
    return send(settings, "incidents.show", **wanted)


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
def ack(settings: Settings, *, until: str | None, span: str | None, **wanted: Any) -> int:
    """Acknowledge an incident, so that no more reminders are sent."""
    if until is not None and span is not None:
        raise click.UsageError("give only one of --until and --for")
    return send(settings, "incidents.ack", until=until, span=span, **wanted)
