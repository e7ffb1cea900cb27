"""`warren jobs trigger` and `warren runs rerun`: plan runs, and wait for their end if asked to.

They use the scheduler's commands on this installation's database, on behalf of the user.
"""

import os
import pwd
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import click

from warren.database_access import now_ms, open_database
from warren.scheduler.actor import LONGEST_NAME, Actor
from warren.scheduler.app_names import Resolver
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.bulk.triggers import NOW, Trigger
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.commands.commands import Commands
from warren.scheduler.completion.end import TickEnd, tick_end
from warren.scheduler.jobs.param import check_param
from warren.scheduler.problems import Code, Problem
from warren.settings.settings import Settings
from warren.sql.engine import Database
from warren.sql.listings import recent
from warren.sql.listings.recent import DetailedRun
from warren.sql.run_status import FINE
from warren.sql.runs.ticks import tick_of
from warren.views.nodes import is_scheduler_alive
from warren.views.terminal import print_json, visible_lines, warn


@dataclass(frozen=True, slots=True)
class LocalClient:
    """What a short command needs: the database, all commands, and a resolver of names."""

    database: Database
    commands: Commands
    ids: Resolver


@contextmanager
def open_client(settings: Settings) -> Iterator[LocalClient]:
    """Yield a client that may write, and acts on behalf of the user who runs the command."""
    with open_database(settings, for_writing=True) as database:
        yield client_on(database, settings)


def client_on(database: Database, settings: Settings) -> LocalClient:
    """Return a client for an open database."""
    return LocalClient(database, Commands(context_on(database, settings)), Resolver(database))


def context_on(database: Database, settings: Settings) -> CommandContext:
    """Return the context of commands: the user who runs this program, with every right."""
    return CommandContext(
        database=database,
        now_ms=lambda: now_ms(database),
        actor=Actor(who=operator()),
        timezone=settings.timezone,
    )


def operator() -> str:
    """Return who runs this program, for the audit log: `cli:<user>@<host>`."""
    user = str(os.getuid())
    with suppress(KeyError):
        user = pwd.getpwuid(os.getuid()).pw_name
    return f"cli:{user}@{socket.gethostname()}"[:LONGEST_NAME]


#: How often the tick's rows are read.
POLL_SECONDS = 0.1
SUCCEEDED, DID_NOT_SUCCEED = 0, 1


def trigger_job(
    settings: Settings,
    name: str,
    asked: Trigger,
    *,
    wait: bool,
    as_json: bool,
) -> int:
    """Plan a run of a job; return the exit status."""
    check_param(asked.param or "")
    with open_client(settings) as client:
        database = client.database
        run_id = client.commands.runs.trigger(
            client.ids.job(name), param=asked.param, addresses=asked.addresses, when=asked.when
        )
        if not wait:
            word = "queued" if asked.when == NOW else "planned"
            _print_planned(run_id, as_json=as_json, word=word)
            return SUCCEEDED
        if not is_scheduler_alive(database):
            warn(f"run {run_id} is queued, but no scheduler is online to dispatch it")
        rows, end = wait_for_tick(database, run_id)
    return _print_outcome(run_id, rows, end, as_json=as_json)


def wait_for_tick(database: Database, run_id: int) -> tuple[list[DetailedRun], TickEnd]:
    """Return every shard and attempt of a run's tick, and how it ended, once it is over.

    A retry is planned in the transaction that ends its run, so there is no gap between attempts.
    """
    while True:
        rows = database.read(lambda session: recent.tick(session, run_id))
        end = tick_end(tick_of(rows[0]), rows)
        if end is not None:
            return rows, end
        time.sleep(POLL_SECONDS)


def _print_planned(run_id: int, *, as_json: bool, word: str = "queued") -> None:
    if as_json:
        print_json({"id": run_id})
    else:
        print(f"run {run_id} {word}; to see it: warren runs show {run_id}")


def _print_outcome(run_id: int, rows: Sequence[DetailedRun], end: TickEnd, *, as_json: bool) -> int:
    deciding = next(row for row in rows if row.id == end.deciding_id)
    status = end.status.value
    if as_json:
        print_json(
            {
                "id": run_id,
                "status": status,
                "message": deciding.message or "",
                "run_ids": [row.id for row in rows],
            }
        )
    else:
        tries = f" after {deciding.starts + 1} attempts" if deciding.starts else ""
        words = f": {deciding.message}" if deciding.message else ""
        print(visible_lines(f"run {deciding.id} {status}{tries}{words}"))
    return SUCCEEDED if end.status in FINE else DID_NOT_SUCCEED


def rerun_runs(
    settings: Settings, run_ids: Sequence[int], options: RerunOptions, *, as_json: bool
) -> None:
    """Repeat runs and print the new ones; ask first if children would run a second time.

    Raises:
        UsageError: it would have to ask, but there is no terminal.

    """
    with open_client(settings) as client:
        planned = _planned(client.commands, run_ids, options)
    for run_id in planned:
        _print_planned(run_id, as_json=as_json)


def _planned(commands: Commands, run_ids: Sequence[int], options: RerunOptions) -> list[int]:
    try:
        return commands.runs.rerun(run_ids, options)[0]
    except Problem as problem:
        if problem.code is not Code.RERUN_CHILDREN:
            raise
        facts = problem.facts
        ran = f"children of run {facts['id']} have already run for its due time"
        ran = f"{ran}: {facts['children']}"
        if not sys.stdin.isatty():
            raise click.UsageError(
                f"{ran}; add --yes to run them again, or --no-children"
            ) from None
        click.confirm(f"{ran}. Run them again?", abort=True, err=True)
    return _planned(commands, run_ids, replace(options, children=True))
