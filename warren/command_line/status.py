"""`warren status`: what is wrong now, in a sentence and a table."""

import click

from warren.command_options import as_json, examples, takes_settings
from warren.connect import connect
from warren.resources.board import FAILS, JobOnBoard, Trouble
from warren.settings.settings import Settings
from warren.terminal.output import (
    duration,
    milliseconds,
    print_line,
    print_struct,
    print_table,
    relative,
)

#: The exit status if a job fails.
FAILING = 2
_HEADERS = ("job", "app", "trouble", "since", "due times", "newest error or reason")


@click.command(
    epilog=examples("warren status", "warren status --app reports", "warren status --json")
)
@click.option("--app", help="Only this app. Default: every app.")
@as_json
@takes_settings("database_url")
def status(settings: Settings, app: str | None, as_json: bool) -> int:
    """Show which jobs are in trouble, since when and why; exit with 2 if one fails, else with 0.

    A job fails if its newest finished due time failed.
    """
    with connect(settings) as client:
        board = client.board(app=app)
    if as_json:
        print_struct(board)
    else:
        print_line(" ".join([board.sentence, *board.details]))
        now_ms = milliseconds(board.at)
        if board.jobs:
            lines = [_line(job, now_ms) for job in board.jobs]
            print_table(_HEADERS, lines, nothing="")
        if board.more:
            print_line(f"and more: these are the worst {len(board.jobs)}")
    return FAILING if board.failing else 0


def _line(job: JobOnBoard, now_ms: int) -> tuple[str, ...]:
    since = None if job.trouble_since is None else milliseconds(job.trouble_since)
    return (
        job.job,
        job.app,
        job.trouble.lower(),
        relative(since, now_ms),
        str(job.count),
        " · ".join(filter(None, [_why(job), _mute(job, now_ms)])),
    )


def _mute(job: JobOnBoard, now_ms: int) -> str:
    """Return who looks after a job, until when and why; empty if nobody does."""
    if job.mute is None:
        return ""
    done = "muted" if job.mute.silent else "acknowledged"
    ends = relative(milliseconds(job.mute.until), now_ms)
    return f"{done} by {job.mute.by}, ends {ends}: {job.mute.why}".removesuffix(": ")


def _why(job: JobOnBoard) -> str:
    if job.trouble in FAILS:
        return job.error
    usual = "" if job.usual is None else f", usually {duration(job.usual)}"
    if job.trouble is Trouble.SLOW and job.last_week is not None:
        usual += f", {duration(job.last_week)} a week ago"
    reasons = {
        Trouble.SLOW: f"took {duration(job.took)}{usual}",
        Trouble.LONG: f"still running{usual}",
    }
    return reasons.get(job.trouble, "")
