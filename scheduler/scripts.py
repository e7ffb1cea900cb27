"""The sources of scripts for triggers: read once, since a version never changes."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from broker.messages import ScriptLanguage
from sql import glue
from sql.rows import AnyRow

#: Characters of sources kept in memory.
KEPT_CHARACTERS = 16_000_000
#: Most versions read in one statement, and scripts sent again in one round: of the longest sources
#: there may be that is 16 MB.
READ_LIMIT = 32

_TYPE_PREFIX = "GLUE_"


@dataclass(frozen=True, slots=True)
class Script:
    """One version of a script."""

    language: str
    source: str


def glue_type(language: str) -> str:
    """Return what XXL-JOB calls a job whose script is in this language, as `GLUE_SHELL`."""
    return _TYPE_PREFIX + language.upper()


def language_of(glue_type: str) -> str:
    """Return the language that a type stands for, empty for a job without a script."""
    language = _spoken(glue_type)
    return language if language in list(ScriptLanguage) else ""


def _spoken(glue_type: str) -> str:
    """Return what a type calls its language, known or not: executors tell what they do not know."""
    return glue_type.removeprefix(_TYPE_PREFIX).lower()


def few_scripts(rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Return all runs of handlers, and the first READ_LIMIT of scripts."""
    left = READ_LIMIT
    few = []
    for row in rows:
        if row.glue_id is not None:
            left -= 1
        if row.glue_id is None or left >= 0:
            few.append(row)
    return few


class Scripts:
    """Script versions by id. Thread-safe."""

    def __init__(self, *, kept_characters: int = KEPT_CHARACTERS) -> None:
        self._kept_characters = kept_characters
        self._lock = threading.Lock()
        self._by_id: OrderedDict[int, Script] = OrderedDict()
        self._characters = 0

    def read(self, session: Session, glue_ids: Iterable[int | None]) -> dict[int, Script | None]:
        """Return versions by id; None stands for one that is gone.

        Of those that must be read, READ_LIMIT are; the others are left out until next time.
        """
        wanted = dict.fromkeys(glue_id for glue_id in glue_ids if glue_id is not None)
        with self._lock:
            found = {glue_id: self._recall(glue_id) for glue_id in wanted if glue_id in self._by_id}
        unread = [glue_id for glue_id in wanted if glue_id not in found][:READ_LIMIT]
        if not unread:
            return found
        read = {
            glue_id: Script(_spoken(type_), source)
            for glue_id, (type_, source) in glue.sources(session, unread).items()
        }
        with self._lock:
            for glue_id, script in read.items():
                self._keep(glue_id, script)
        return found | {glue_id: read.get(glue_id) for glue_id in unread}

    def _recall(self, glue_id: int) -> Script | None:
        self._by_id.move_to_end(glue_id)
        return self._by_id[glue_id]

    def _keep(self, glue_id: int, script: Script) -> None:
        if glue_id in self._by_id:
            return
        self._by_id[glue_id] = script
        self._characters += len(script.source)
        while self._characters > self._kept_characters:
            _, dropped = self._by_id.popitem(last=False)
            self._characters -= len(dropped.source)
