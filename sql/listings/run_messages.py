"""What runs say: messages searched for a text, and alike but for their numbers."""

import re
from collections.abc import Sequence

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from sql.batch import chunks
from sql.models import Run

#: Stands for any number in a text that is looked for.
NUMBER = "#"
#: Characters of a message that tell one error from another.
COMPARED = 200
_AT_ONCE = 1_000
_DIGITS = re.compile("[0-9]+")


def without_numbers(message: str) -> str:
    """Return the first line of a message, with `#` for each of its numbers."""
    line = message.strip().partition("\n")[0][:COMPARED]
    return _DIGITS.sub(NUMBER, line).strip()


def with_text(session: Session, run_ids: Sequence[int], text: str) -> set[int]:
    """Return those of the runs whose message, or what their routing says, has a text in it.

    Small and capital letters are the same. In a text with `#`, that is any number; such a text is
    looked for at the start of messages only.
    """
    look = _alike if NUMBER in text else _containing
    return {run_id for part in chunks(run_ids, _AT_ONCE) for run_id in look(session, part, text)}


def _containing(session: Session, run_ids: Sequence[int], text: str) -> Sequence[int]:
    said = [
        func.lower(column).contains(text.lower(), autoescape=True)
        for column in (Run.message, Run.trigger_message)
    ]
    found = select(Run.id).where(Run.id.in_(run_ids), or_(*said))
    return session.execute(found).scalars().all()


def _alike(session: Session, run_ids: Sequence[int], text: str) -> list[int]:
    wanted = without_numbers(text).lower()
    return [
        run_id
        for run_id, message in beginnings(session, run_ids).items()
        if wanted in without_numbers(message).lower()
    ]


def beginnings(session: Session, run_ids: Sequence[int]) -> dict[int, str]:
    """Return how the message of each run begins; of one without, what its routing says."""
    # Twice as long: the first line may begin after empty ones.
    message = func.substr(func.coalesce(func.nullif(Run.message, ""), Run.trigger_message), 1, 400)
    found = select(Run.id, message).where(Run.id.in_(run_ids))
    return {run_id: text or "" for run_id, text in session.execute(found)}
