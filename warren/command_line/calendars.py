"""`warren calendars …`: which days are working days."""

import json
from datetime import date, datetime
from pathlib import Path
from typing import Any

import click

from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.jobfile.sources import Source, read_sources
from warren.resources import calendars as operations
from warren.resources.calendars import WEEKDAYS
from warren.settings.settings import Settings
from warren.terminal.changes import print_applied
from warren.terminal.output import (
    print_facts,
    print_line,
    print_struct,
    print_table,
    shown_time,
)

_HEADERS = ("name", "version", "weekend", "known until", "from", "jobs", "made by", "counts from")
_name = click.argument("name")


@click.group()
def calendars() -> None:
    """Apply, list and show calendars of working days."""


@calendars.command(
    epilog=examples(
        "warren calendars apply --name cn --from holidays:CN",
        "warren calendars apply calendars.yaml",
        "warren calendars apply calendars.yaml acme.ics --yes",
        "warren calendars apply calendars.yaml --dry-run",
    )
)
@click.argument("files", metavar="[FILE]…", type=click.Path(path_type=Path), nargs=-1)
@click.option("--name", help="Without a FILE: the name of the calendar.")
@click.option("--from", "source", metavar="SOURCE", help="With --name: such as holidays:CN.")
@click.option("--weekend", help="With --name: the weekdays that are off, such as SAT,SUN.")
@click.option("--dry-run", is_flag=True, help="Show what would change, without changing it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@takes_settings("database_url", "timezone")
def apply(
    settings: Settings,
    *,
    files: tuple[Path, ...],
    name: str | None,
    source: str | None,
    weekend: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Make the calendars match the FILEs, or --name and --from. Repeating it changes nothing.

    A new version takes effect ten seconds after it is stored. Before it asks, it lists the jobs
    whose next due time changes, and the due times that would lie in the past, which are skipped.
    """
    if bool(files) is bool(name):
        raise click.UsageError("expected a FILE, or --name with --from")
    given = read_sources(files) if name is None else [_described(name, source, weekend)]
    with connect(settings) as client:
        seen = client.apply_calendars(files=given, dry_run=True)
        print_applied(seen, as_json=as_json)
        if dry_run or not seen.changes:
            return 0
        if not yes and not click.confirm("Apply this?", default=False, err=True):
            return 1
        applied = client.apply_calendars(files=given)
    print_applied(applied, as_json=as_json)
    return 0


def _described(name: str, source: str | None, weekend: str | None) -> Source:
    said: dict[str, Any] = {"name": name}
    if source:
        said["from"] = source
    if weekend:
        said["weekend"] = [day.strip() for day in weekend.split(",")]
    # JSON is YAML, which the base installation does not have.
    return Source("--name", json.dumps({"calendars": [said]}), ["--name"])


@calendars.command("list", epilog=examples("warren calendars list", "warren calendars list --json"))
@as_json
@takes_settings("database_url")
def list_command(settings: Settings, as_json: bool) -> None:
    """List the calendars: the last day that they know, and how many jobs use them."""
    with connect(settings) as client:
        found = client.calendars()
    if as_json:
        for one in found:
            print_struct(one)
        return
    lines = [
        (
            one.name,
            str(one.version),
            ",".join(one.weekend),
            one.until,
            one.source,
            str(len(one.jobs)),
            one.made_by,
            shown_time(one.effective_at, settings.zone),
        )
        for one in found
    ]
    nothing = "no calendars yet; try: warren calendars apply --name cn --from holidays:CN"
    print_table(_HEADERS, lines, nothing=nothing)


@calendars.command(
    "show",
    help=operations.show_calendar.about,
    epilog=examples(
        "warren calendars show cn",
        "warren calendars show cn --year 2026 --json",
        "warren calendars show cn --version 1",
    ),
)
@_name
@click.option("--year", type=click.IntRange(1970, 2999), help="Default: this year.")
@click.option("--version", type=click.IntRange(1), help="Default: the newest.")
@as_json
@takes_settings("database_url", "timezone")
def show(
    settings: Settings, name: str, year: int | None, version: int | None, as_json: bool
) -> None:
    with connect(settings) as client:
        shown = client.calendar(
            name, year=year or datetime.now(settings.zone).year, version=version
        )
    if as_json:
        print_struct(shown)
        return
    facts = {
        "calendar": f"{shown.name}, version {shown.version} of {shown.versions}",
        "weekend": ", ".join(shown.weekend) or "none",
        "known until": shown.until,
        "from": shown.source or "the job file",
        "working days": f"{shown.working_days} in {shown.year}",
        "jobs": ", ".join(shown.jobs) or "none",
        "in its feed": shown.not_taken,
    }
    print_facts(facts)
    print_line()
    lines = [
        (day.date, _weekday(day.date), "work" if day.working else "off", day.name)
        for day in shown.days
    ]
    print_table(("day", "weekday", "", "name"), lines, nothing="every day is as its weekday says")


def _weekday(day: str) -> str:
    return WEEKDAYS[date.fromisoformat(day).weekday()]
