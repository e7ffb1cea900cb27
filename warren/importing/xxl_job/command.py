"""`warren import xxl-job`: reads, reports, and writes unless it is a dry run."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from scheduler.commands.command_context import CommandContext
from scheduler.cron.wall_clock import load_zone
from scheduler.imports.arrivals import Arrivals
from scheduler.imports.importer import Importer, ImportWish
from warren.actions.local_client import context_on
from warren.database_access import open_database
from warren.errors import CommandError
from warren.importing.report import finding_line, print_findings, print_outcomes
from warren.importing.xxl_job.job_file import lines_of
from warren.importing.xxl_job.mapping import read_arrivals
from warren.importing.xxl_job.sources import open_source
from warren.settings.settings import Settings
from warren.views.terminal import warn


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlJobWish:
    """What somebody asks of `warren import xxl-job`; each is an option of it."""

    place: str
    timezone: str
    source: str
    app: str | None
    password_file: Path | None
    passwords: Path | None
    dry_run: bool
    as_file: bool
    overwrite: bool
    as_json: bool


def import_xxl_job(settings: Settings, wish: XxlJobWish) -> None:
    """Import, or say what an import would do."""
    zone = load_zone(wish.timezone)
    with open_source(wish.place, wish.password_file) as source:
        now_ms = time.time_ns() // 1_000_000
        arrivals = read_arrivals(source, zone=zone, now_ms=now_ms, app=wish.app)
    if wish.as_file:
        _print_file(arrivals)
        return
    with open_database(settings, for_writing=not wish.dry_run) as database:
        _import(context_on(database, settings), wish, arrivals, zone)


def _import(context: CommandContext, wish: XxlJobWish, arrivals: Arrivals, zone: ZoneInfo) -> None:
    today = datetime.fromtimestamp(context.now_ms() / 1000, zone).date()
    keep = None if wish.dry_run else _keeper(wish.passwords)
    how = ImportWish(source=wish.source, overwrite=wish.overwrite, today=today, keep=keep)
    importer = Importer(context, how)
    outcomes = importer.preview(arrivals) if wish.dry_run else importer.write(arrivals)
    print_findings(arrivals.findings, as_json=wish.as_json)
    print_outcomes(outcomes, as_json=wish.as_json, is_preview=wish.dry_run)


def _print_file(arrivals: Arrivals) -> None:
    print("".join(f"{line}\n" for line in lines_of(arrivals)), end="")
    for finding in arrivals.findings:
        if finding.words:
            warn(finding_line(finding))


def _keeper(path: Path | None) -> Callable[[Mapping[str, str]], None] | None:
    """Return what writes passwords into a new file that only its owner may read."""
    if path is None:
        return None
    if path.exists():
        raise CommandError(f"{path}: expected a file that does not exist yet, for passwords")

    def keep(passwords: Mapping[str, str]) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {password}\n" for name, password in passwords.items())
            file.flush()
            os.fsync(file.fileno())

    return keep
