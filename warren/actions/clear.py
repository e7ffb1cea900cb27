"""`warren runs clear`: turns options into a clearing and shows its progress."""

import sys
from dataclasses import dataclass
from typing import Any

import click

from warren.actions.trigger import open_client
from warren.database_access import now_ms
from warren.scheduler.app_names import Resolver
from warren.scheduler.retention.clearing_criteria import ClearingCriteria
from warren.settings.settings import Settings
from warren.views.instants import read_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearOptions:
    """The command's options."""

    job: str | None
    app: str | None
    older_than: str | None
    keep: int | None
    everything: bool
    dry_run: bool


def clear_runs(settings: Settings, wanted: ClearOptions) -> None:
    """Clear runs and print how many; on a terminal, also the progress.

    Raises:
        UsageError: not exactly one way to choose runs was given.

    """
    chosen = (wanted.older_than is not None, wanted.keep is not None, wanted.everything)
    if sum(chosen) != 1:
        raise click.UsageError("expected one of --older-than, --keep and --all")
    if wanted.job is not None and wanted.app is not None:
        raise click.UsageError("expected --job or --app, got both; a job is named APP/NAME too")
    with open_client(settings) as client:
        now = now_ms(client.database)
        before = wanted.older_than
        before_ms = None
        if before is not None:
            before_ms = read_instant(before, now_ms=now, zone=settings.zone)
        when = {"keep": wanted.keep, "before_ms": before_ms}
        criteria = ClearingCriteria(**_whose(client.ids, wanted), **when)
        count = client.commands.runs.clear(
            criteria, dry_run=wanted.dry_run, on_progress=_show_progress
        )
    _end_progress()
    verb = "would be cleared" if wanted.dry_run else "cleared"
    print(f"{count:,} {'run' if count == 1 else 'runs'} {verb}")


def _whose(ids: Resolver, wanted: ClearOptions) -> dict[str, Any]:
    if wanted.job is not None:
        return {"job_id": ids.job(wanted.job)}
    if wanted.app is not None:
        return {"app_id": ids.app(wanted.app)}
    return {}


def _show_progress(count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{count:,} …", end="", file=sys.stderr, flush=True)


def _end_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
