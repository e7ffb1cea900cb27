"""What an import does, or would do, with each item."""

from dataclasses import dataclass
from enum import StrEnum


class ImportAction(StrEnum):
    """What an import does with one item."""

    CREATE = "create"
    UPDATE = "update"
    UNCHANGED = "unchanged"
    #: Changed on both sides: ours is kept.
    CONFLICT = "conflict"
    #: It was imported before, and somebody deleted it here.
    DELETED = "deleted here"
    START = "start"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for one item; `what` is app, job, user, day or run."""

    did: ImportAction
    what: str
    source_id: int
    target_id: int
    name: str
    words: str = ""
