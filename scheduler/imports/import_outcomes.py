"""The outcome of an import for each item."""

from dataclasses import dataclass
from enum import StrEnum


class ImportAction(StrEnum):
    """What an import does with one item."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    #: Changed both here and at the source; ours is kept.
    CONFLICT = "conflict"
    #: It was imported before and has been deleted here.
    DELETED = "deleted here"
    START = "start"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome for one item; `what` is app, job, user or day."""

    action: ImportAction
    what: str
    source_id: int
    target_id: int
    name: str
    words: str = ""
