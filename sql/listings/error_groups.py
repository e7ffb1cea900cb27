"""Groups failed runs by job and by message, ignoring numbers in the message."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.listings import run_messages
from sql.listings.newest_runs import ScannedRun

_AT_ONCE = 1_000


@dataclass(slots=True)
class ErrorGroup:
    """Runs of a job with the same message; `newest` is the id of the latest due one.

    `text` is the message with `#` for numbers; due times are epoch milliseconds.
    """

    job_id: int
    text: str
    newest: int
    first_due: int
    last_due: int
    count: int = 0


def group(session: Session, runs: Iterable[ScannedRun]) -> list[ErrorGroup]:
    """Return the groups of some runs, the largest first."""
    groups: dict[tuple[int, str], ErrorGroup] = {}
    for part in chunks(runs, _AT_ONCE):
        messages = run_messages.beginnings(session, [run.id for run in part])
        for run in part:
            if run.id in messages:
                _count(groups, run, run_messages.without_numbers(messages[run.id]))
    return sorted(groups.values(), key=lambda one: (-one.count, -one.last_due))


def _count(groups: dict[tuple[int, str], ErrorGroup], run: ScannedRun, text: str) -> None:
    new = ErrorGroup(run.job_id, text, run.id, run.due_at, run.due_at)
    known = groups.setdefault((run.job_id, text), new)
    known.count += 1
    known.first_due = min(known.first_due, run.due_at)
    known.last_due, known.newest = max((known.last_due, known.newest), (run.due_at, run.id))
