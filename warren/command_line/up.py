"""`warren up`: everything in one process, to try Warren out, and for small installations."""

import contextlib
from dataclasses import replace
from pathlib import Path

import click

from warren.broker.topology import check_app
from warren.command_options import examples, file_values, takes_settings, value_files
from warren.errors import CommandError
from warren.executor.fork_server.confinement import keep_settings_secret
from warren.executor.handlers.handler_registry import HandlersError
from warren.jobfile.apply import UpJobs
from warren.jobfile.sources import read_values
from warren.logs import BoundedFile, configure_logs
from warren.program_name import own_call, shown_name
from warren.settings.home import (
    LOG_FILE,
    OpenHome,
    home_database_url,
    home_secret,
    lock_embedded_database,
)
from warren.settings.settings import DATABASE_FILE, HOME, Settings
from warren.sql.engine import Database
from warren.sql.schema import migration
from warren.wiring.all_in_one import AllInOne, Reloading
from warren.wiring.processes import Signals, exempt_loaded, log_thread_failures

#: At shutdown, running jobs get SIGTERM at once and SIGKILL after this many seconds.
GRACE_SECONDS = 2.0
POLL_SECONDS = 0.5


@click.command(
    epilog=examples("warren up --jobs examples/handlers.py --apply examples/jobs.yaml", "warren up")
)
@click.option(
    "--jobs",
    "sources",
    metavar="FILE.py",
    multiple=True,
    help="Handlers, with the jobs that they declare; may be repeated.",
)
@click.option(
    "--apply", "file", type=click.Path(path_type=Path), help="A job file to apply at each start."
)
@click.option(
    "--seed",
    type=click.Path(path_type=Path),
    help="A job file to apply only if no job was ever created.",
)
@value_files
@file_values
@click.option(
    "--executors", default=3, show_default=True, type=click.IntRange(1, 50), help="How many to run."
)
@click.option("--app", help="The executors' app. Default: the first in the job file or handlers.")
@click.option(
    "--reload", "reloads", is_flag=True, help="Reload handlers as soon as they are saved."
)
@takes_settings("log_dir", "state_dir", "slots", "host", "port", "timezone", "log_level")
def up(
    settings: Settings,
    *,
    sources: tuple[str, ...],
    file: Path | None,
    seed: Path | None,
    value_paths: tuple[Path, ...],
    values: tuple[str, ...],
    executors: int,
    app: str | None,
    reloads: bool,
) -> None:
    """Run everything here: a scheduler, executors, an SQLite database and a broker in memory.

    Everything is kept in ./.warren, where other commands in this folder find it. Ctrl-C stops it;
    start it again to continue with the same data.
    """
    _refuse_services(settings)
    if reloads and not sources:
        raise click.UsageError("--reload needs handlers to watch: --jobs FILE.py")
    if (value_paths or values) and not (file or seed):
        raise click.UsageError("--values and --set need a job file: --apply or --seed FILE.yaml")
    keep_settings_secret()
    given = read_values(value_paths, values)
    jobs = UpJobs(file=file, seed=seed, values=given, sources=sources)
    with Signals() as signals, contextlib.ExitStack() as held:
        home = held.enter_context(OpenHome())
        lock = lock_embedded_database(home_database_url())
        held.callback(lock.release if lock else lambda: None)
        configure_logs(settings.log_level, BoundedFile(LOG_FILE))
        log_thread_failures()
        database = Database(home_database_url())
        held.callback(database.close)
        migration.upgrade(database)
        frame = replace(settings, grace_seconds=GRACE_SECONDS, drain_seconds=0.0)
        platform = AllInOne(frame, database, home_secret(settings))
        held.callback(platform.close, signals)
        name = check_app(jobs.app(database) if app is None else app)
        jobs.prepare(frame, database, name)
        try:
            watch = Reloading(platform, sources) if reloads else None
            platform.start(signals, app=name, count=executors, sources=sources, is_reloaded=reloads)
            if watch is not None:
                held.callback(watch.stop)
                watch.start()
            platform.wait_until_welcome(signals)
            jobs.apply(frame, database)
            home.keep()
            _print_summary(frame, name, executors, platform)
        except HandlersError:
            if not signals.count:
                raise
            home.keep()
        finally:
            if home.is_kept:
                _print_password(platform.web.password)
        exempt_loaded()
        _serve(platform, signals)
    print(f"stopped; `{shown_name()} up` continues with the same data")


def _refuse_services(settings: Settings) -> None:
    for name, value in (("DATABASE", settings.database_url), ("BROKER", settings.broker_url)):
        if value and value != "memory://":
            raise CommandError(
                f"WARREN_{name}_URL is set, but `warren up` uses its own in {HOME}; "
                "unset it, or run `warren scheduler` and `warren executor`"
            )


def _counted(executors: int) -> str:
    return "1 executor" if executors == 1 else f"{executors} executors"


def _print_summary(settings: Settings, app: str, executors: int, platform: AllInOne) -> None:
    command = own_call()
    print(
        f"""
Warren is up: one scheduler, {_counted(executors)} of app {app!r} ({settings.slots} slots each).
  console   {platform.web.address}
  data      {DATABASE_FILE}
  run logs  {settings.log_dir}/
  own log   {LOG_FILE}
In another terminal, in this folder:
  {command} jobs list                  list jobs and when each fires next
  {command} runs list                  list runs and how they ended
  {command} jobs trigger NAME --wait   run a job now
  {platform.web.call}
Ctrl-C stops everything.
""",
        flush=True,
    )


def _print_password(password: str | None) -> None:
    """Print the first administrator's password even after errors: it is shown only once."""
    if password:
        print(
            f"Sign in as admin. The password is shown only once:\nadmin password: {password}\n",
            flush=True,
        )


def _serve(platform: AllInOne, signals: Signals) -> None:
    while not signals.wait(POLL_SECONDS):
        platform.finished.show()
        if platform.failure:
            raise CommandError(platform.failure)
    platform.finished.show()
    print("\nstopping: running jobs get 2 s; Ctrl-C again stops them now", flush=True)
