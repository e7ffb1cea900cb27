"""`warren up`: everything in one process, for the first ten minutes and for small things."""

import contextlib
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from broker.topology import check_app
from scheduler.commands import Commands
from sql import apps, migration
from sql.engine import Database
from warren.access import now_ms
from warren.acting import operator
from warren.added_routes import route_names
from warren.errors import CommandError
from warren.file_lock import lock_embedded_database
from warren.home import LOG_FILE, home_database_url, home_secret, open_home
from warren.job_apply import apply, change_line, unknown_handlers
from warren.jobfile import JobFile, read_job_file
from warren.logs import BoundedFile, configure_logs
from warren.options import examples, takes_settings
from warren.service import Signals, log_thread_failures
from warren.settings import DATABASE_FILE, HOME, Settings
from warren.terminal import warn
from warren.up import AllInOne
from warren.up_console import UpConsole

#: An app's name where neither the job file nor the database has one.
DEFAULT_APP = "default"
#: Running jobs do not delay the end; they get SIGTERM and this long.
GRACE_SECONDS = 2.0
LOOK_SECONDS = 0.5


@click.command(
    epilog=examples("warren up --jobs examples/handlers.py --apply examples/jobs.yaml", "warren up")
)
@click.option(
    "--jobs", "sources", metavar="FILE.py", multiple=True, help="Handlers; may be repeated."
)
@click.option("--apply", "file", type=click.Path(path_type=Path), help="A job file to apply first.")
@click.option("--executors", default=3, show_default=True, type=click.IntRange(1, 50))
@click.option("--app", help="The executors' app; by default the first one of the job file.")
@takes_settings("log_dir", "state_dir", "slots", "host", "port", "timezone", "log_level")
def up(
    settings: Settings, sources: tuple[str, ...], file: Path | None, executors: int, app: str | None
) -> None:
    """Run everything here: a scheduler, executors, an SQLite database and a broker in memory.

    All of it is kept in ./.warren; other commands in this folder find it there. Ctrl-C ends it,
    and started again it goes on with the same data.
    """
    _refuse_services(settings)
    wanted = _read(file) if file else None
    with Signals() as signals, contextlib.ExitStack() as held:
        held.callback(open_home().release)
        lock = lock_embedded_database(home_database_url())
        held.callback(lock.release if lock else lambda: None)
        configure_logs(settings.log_level, BoundedFile(LOG_FILE))
        log_thread_failures()
        database = Database(home_database_url())
        held.callback(database.close)
        migration.upgrade(database)
        frame = _embedded(settings)
        platform = AllInOne(frame, database, home_secret(settings))
        held.callback(platform.close, signals)
        name = check_app(app or _default_app(database, wanted))
        if wanted:
            # An executor that joins first would make the app without what the file says of it.
            _apply(frame, database, replace(wanted, specs=()))
        platform.start(app=name, count=executors, sources=sources)
        platform.wait_until_welcome(signals)
        if wanted:
            _apply(frame, database, wanted)
            for words in unknown_handlers(database, wanted.specs):
                warn(words)
        _say_what_runs(frame, name, executors, platform.console)
        _serve(platform, signals)
    print("ended; `warren up` goes on with the same data")


def _refuse_services(settings: Settings) -> None:
    for name, value in (("DATABASE", settings.database_url), ("BROKER", settings.broker_url)):
        if value and value != "memory://":
            raise CommandError(
                f"WARREN_{name}_URL is set, but `warren up` uses its own in {HOME}; "
                "unset it, or run `warren scheduler` and `warren executor`"
            )


def _embedded(settings: Settings) -> Settings:
    return settings.model_copy(update={"grace_seconds": GRACE_SECONDS, "drain_seconds": 0.0})


def _read(file: Path) -> JobFile:
    return read_job_file(file, now_ms=time.time_ns() // 1_000_000, added_routes=route_names())


def _default_app(database: Database, wanted: JobFile | None) -> str:
    if wanted and wanted.apps:
        return wanted.apps[0].name
    if wanted and wanted.specs:
        return wanted.specs[0].app
    known = database.read(apps.ids_by_name)
    return min(known, key=lambda name: known[name], default=DEFAULT_APP)


def _apply(settings: Settings, database: Database, wanted: JobFile) -> None:
    commands = Commands(
        database, lambda: now_ms(database), timezone=settings.timezone, who=operator()
    )
    for change in apply(commands, database, wanted, dry_run=False, prune=False):
        if change.action != "unchanged":
            print(change_line(change, dry_run=False))


def _say_what_runs(settings: Settings, app: str, executors: int, console: UpConsole) -> None:
    command = own_name(sys.argv[0], shutil.which("warren"))
    print(
        f"""
Warren is up: one scheduler, {executors} executors of app {app!r} ({settings.slots} slots each).
  console   {console.address}
  data      {DATABASE_FILE}
  run logs  {settings.log_dir}/
  own log   {LOG_FILE}
In another terminal, in this folder:
  {command} jobs list                  what is there and when it fires
  {command} runs list                  what ran and how it went
  {command} jobs trigger NAME --wait   run a job now
Ctrl-C ends it all.
""",
        flush=True,
    )
    if console.password:
        print(
            f"Sign in as admin; this is shown once:\nadmin password: {console.password}\n",
            flush=True,
        )


def own_name(called: str, on_path: str | None) -> str:
    """Return what to type for this very program: `warren` only where that finds it."""
    if on_path is not None and Path(on_path).resolve() == Path(called).resolve():
        return "warren"
    return called


def _serve(platform: AllInOne, signals: Signals) -> None:
    while not signals.wait(LOOK_SECONDS):
        platform.finished.show()
        if platform.failure:
            raise CommandError(platform.failure)
    platform.finished.show()
    print("\nending: running jobs get 2 s; Ctrl-C again hurries", flush=True)
