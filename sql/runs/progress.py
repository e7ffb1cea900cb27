"""The progress of runs, as their handlers report it; it is stored with the run."""

from collections.abc import Mapping

from sqlalchemy.orm import Session

from warren.sql.batch import Guard, update_each
from warren.sql.models import Run
from warren.sql.run_status import RunStatus
from warren.sql.runs.successes import SENT_TO, SentTo
from warren.sql.runs.transitions import status_in


def note(session: Session, boot: SentTo, texts: Mapping[int, str]) -> int:
    """Store the progress of runs, as JSON by id; only of those that are RUNNING on this boot."""
    rows = [{"id": run_id, "progress": progress} for run_id, progress in sorted(texts.items())]
    running = status_in([RunStatus.RUNNING]).condition
    return update_each(session, Run, rows, guard=Guard(f"{running} AND {SENT_TO}", boot))
