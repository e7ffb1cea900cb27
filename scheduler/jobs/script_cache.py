"""Script sources: checked and normalized before they are stored, cached for triggers.

A version never changes, so it is read once; again if the database may have lost it, and given its
id to another one.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy.orm import Session

from warren.broker.messages import ScriptLanguage
from warren.scheduler.problems import Code, Problem
from warren.sql.jobs import script_versions
from warren.sql.runs.run_rows import RoutedRun

#: The longest source, in bytes of UTF-8.
SOURCE_BYTES = 524_288
#: Longest source in a message, in bytes of JSON, where quotes and line feeds take two bytes. A
#: message may have 1,000,000 bytes, so this leaves room for a parameter of 64 kB, escaped too.
MESSAGE_BYTES = 800_000
REMARK_LENGTH = 128

_BYTE_ORDER_MARK = "\ufeff"
_LINE_END = re.compile(r"\r+\n")


def check_source(source: str) -> None:
    """Raise Problem if a source is empty, too long, or has characters that no script may have."""
    if not source.strip():
        raise Problem(Code.SOURCE_EMPTY, "script/source")
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise Problem(Code.SOURCE_NUL, "script/source", line=line)
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise Problem(Code.SOURCE_SURROGATE, "script/source") from error
    if size > SOURCE_BYTES:
        raise Problem(Code.SOURCE_TOO_LONG, "script/source", most=SOURCE_BYTES, got=size)
    size = len(msgspec.json.encode(source))
    if size > MESSAGE_BYTES:
        raise Problem(Code.SOURCE_MESSAGE_TOO_LONG, "script/source", most=MESSAGE_BYTES, got=size)


def normal_source(language: str, source: str) -> str:
    r"""Return a source with plain line feeds and no byte order mark; PowerShell's unchanged.

    A shell takes `\r` as part of the command, and PHP prints a byte order mark. PowerShell
    accepts both, and its older versions need the mark.
    """
    if language == ScriptLanguage.POWERSHELL:
        return source
    # Idempotent, so that an exported source compares as unchanged.
    return _LINE_END.sub("\n", source.lstrip(_BYTE_ORDER_MARK))


#: The most characters of sources that are kept in memory.
KEPT_CHARACTERS = 16_000_000
#: Most versions read in one statement, and most scripts sent again in one round: 16 MB if all have
#: the longest source allowed.
READ_LIMIT = 32

_TYPE_PREFIX = "GLUE_"


@dataclass(frozen=True, slots=True)
class Script:
    language: str
    source: str


def script_type(language: str) -> str:
    """Return XXL-JOB's type of a job with a script in this language, such as `GLUE_SHELL`."""
    return _TYPE_PREFIX + language.upper()


def language_of(script_type: str) -> str:
    """Return the language of a type; empty for a job without a script."""
    language = _language_name(script_type)
    return language if language in list(ScriptLanguage) else ""


def _language_name(script_type: str) -> str:
    """Return the language of a type, known or not: executors reject those they do not know."""
    return script_type.removeprefix(_TYPE_PREFIX).lower()


def few_scripts(rows: Sequence[RoutedRun]) -> list[RoutedRun]:
    """Return the runs, with only the first READ_LIMIT of those that run scripts."""
    left = READ_LIMIT
    chunk = []
    for row in rows:
        if row.script_version is not None:
            left -= 1
        if row.script_version is None or left >= 0:
            chunk.append(row)
    return chunk


class Scripts:
    """Script versions by id. Thread-safe.

    Once `turns` has grown, ids may belong to other versions than before; see `RunIds.turns`.
    """

    def __init__(
        self, *, turns: Callable[[], int] = lambda: 0, kept_characters: int = KEPT_CHARACTERS
    ) -> None:
        self._turns = turns
        self._seen_turns = turns()
        self._kept_characters = kept_characters
        self._lock = threading.Lock()
        self._by_id: OrderedDict[int, Script] = OrderedDict()
        self._characters = 0

    def read(self, session: Session, versions: Iterable[int | None]) -> dict[int, Script | None]:
        """Return versions by id; None for one that was deleted.

        At most READ_LIMIT are read from the database; the caller asks again for the others.
        """
        wanted = dict.fromkeys(version for version in versions if version is not None)
        with self._lock:
            if (turns := self._turns()) != self._seen_turns:
                self._seen_turns, self._characters = turns, 0
                self._by_id.clear()
            scripts = {
                version: self._recall(version) for version in wanted if version in self._by_id
            }
        unread = [version for version in wanted if version not in scripts][:READ_LIMIT]
        if not unread:
            return scripts
        read = {
            version: Script(_language_name(type_), source)
            for version, (type_, source) in script_versions.sources(session, unread).items()
        }
        with self._lock:
            for version, script in read.items() if turns == self._turns() else ():
                self._keep(version, script)
        return scripts | {version: read.get(version) for version in unread}

    def _recall(self, version: int) -> Script | None:
        self._by_id.move_to_end(version)
        return self._by_id[version]

    def _keep(self, version: int, script: Script) -> None:
        if version in self._by_id:
            return
        self._by_id[version] = script
        self._characters += len(script.source)
        while self._characters > self._kept_characters:
            _, dropped = self._by_id.popitem(last=False)
            self._characters -= len(dropped.source)
