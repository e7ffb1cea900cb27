"""Groups failed runs by job and by message, ignoring numbers in the message."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.listings import run_messages
from sql.models import Run
from sql.rows import fetch, query

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
    count: int


class _Failure(NamedTuple):
    id: int
    job_id: int
    due_at: int
    message: str | None


def group(session: Session, run_ids: Iterable[int]) -> list[ErrorGroup]:
    """Return the groups of some runs, the largest first."""
    groups: dict[tuple[int, str], ErrorGroup] = {}
    texts: dict[str | None, str] = {}
    failures = query(_Failure, Run, message=run_messages.beginning())
    for part in chunks(run_ids, _AT_ONCE):
        for run in fetch(session, _Failure, failures.where(Run.id.in_(part))):
            # Most messages repeat.
            text = texts.get(run.message)
            if text is None:
                text = texts[run.message] = run_messages.without_numbers(run.message or "")
            _count(groups, run, text)
    return sorted(groups.values(), key=lambda one: (-one.count, -one.last_due))


def _count(groups: dict[tuple[int, str], ErrorGroup], run: _Failure, text: str) -> None:
    known = groups.get((run.job_id, text))
    if known is None:
        groups[run.job_id, text] = ErrorGroup(run.job_id, text, run.id, run.due_at, run.due_at, 1)
        return
    known.count += 1
    known.first_due = min(known.first_due, run.due_at)
    known.last_due, known.newest = max((known.last_due, known.newest), (run.due_at, run.id))
