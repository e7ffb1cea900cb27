"""Searches the messages of runs, and compares them without their numbers."""

import re
from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from warren.sql.batch import chunks
from warren.sql.models import Run
from warren.sql.text_search import contains

#: Stands for any number in a search text.
NUMBER = "#"
#: Characters of a message that are compared.
COMPARED = 200
_AT_ONCE = 1_000
_DIGITS = re.compile("[0-9]+")


def without_numbers(message: str) -> str:
    """Return the first line of a message, with `#` for each of its numbers."""
    line = message.strip().partition("\n")[0]
    return _DIGITS.sub(NUMBER, line)[:COMPARED].strip()


def with_text(session: Session, run_ids: Sequence[int], text: str) -> set[int]:
    """Return those of the runs whose message, or routing message, contains a text.

    Case is ignored. `#` in the text matches any number; such a text is searched only in the first
    line of messages.
    """
    search = _alike if NUMBER in text else _containing
    return {run_id for part in chunks(run_ids, _AT_ONCE) for run_id in search(session, part, text)}


def _containing(session: Session, run_ids: Sequence[int], text: str) -> Sequence[int]:
    matches = [contains(column, text) for column in (Run.message, Run.trigger_message)]
    matching = select(Run.id).where(Run.id.in_(run_ids), or_(*matches))
    return session.execute(matching).scalars().all()


def _alike(session: Session, run_ids: Sequence[int], text: str) -> list[int]:
    wanted = without_numbers(text).lower()
    return [
        run_id
        for run_id, message in beginnings(session, run_ids).items()
        if wanted in without_numbers(message).lower()
    ]


def beginnings(session: Session, run_ids: Sequence[int]) -> dict[int, str]:
    """Return the beginning of each run's message; of its routing message if it has none."""
    texts = select(Run.id, beginning()).where(Run.id.in_(run_ids))
    return {run_id: text or "" for run_id, text in session.execute(texts)}


def beginning() -> ColumnElement[str]:
    """Return the SQL for the beginning of a run's message, or of its routing message."""
    # Twice COMPARED, because the first line may follow empty ones.
    return func.substr(func.coalesce(func.nullif(Run.message, ""), Run.trigger_message), 1, 400)
