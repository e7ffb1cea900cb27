"""`warren runs rerun`: runs runs again for their due times, and asks about their children."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import click

from warren.actions.trigger import open_client
from warren.scheduler.commands.bulk.reruns import RerunOptions
from warren.scheduler.commands.commands import Commands
from warren.scheduler.problems import Code, Problem
from warren.settings.settings import Settings
from warren.views.terminal import print_json


def rerun_runs(
    settings: Settings, run_ids: Sequence[int], options: RerunOptions, *, as_json: bool
) -> None:
    """Run runs again and print the new ones; ask if children would run a second time.

    Raises:
        UsageError: it would have to ask, and there is no terminal.

    """
    with open_client(settings) as client:
        planned = _planned(client.commands, run_ids, options)
    for run_id in planned:
        if as_json:
            print_json({"id": run_id})
        else:
            print(f"run {run_id} queued; to see it: warren runs show {run_id}")


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
