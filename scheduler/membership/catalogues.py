"""What executors can run: their catalogues by fingerprint, and which executors can run what.

    heartbeat with a fingerprint ─> known here? ─> in the database? ─> Welcome asks ─> sent to all

A catalogue is requested only if no scheduler has received it yet; it is stored in the database for
schedulers that start later.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import structlog

from warren.broker.codec import catalogue_of, fingerprint_of
from warren.broker.errors import Malformed
from warren.broker.messages import Catalogue
from warren.sql.engine import Database
from warren.sql.registry import presence

#: How long to wait for a catalogue before another boot is asked for the same one.
ASK_SECONDS = 3.0
#: The most catalogues of an app that are asked for in a minute: a deployment has one or two.
ASKS_A_MINUTE = 20
MINUTE = 60.0
#: With more catalogues than this, those that no executor has are forgotten.
KEPT = 64
#: The most needs for which it is remembered which executors lack them.
NEEDS_KEPT = 50_000

log = structlog.get_logger()


class Need(NamedTuple):
    """What a run needs of its executor: a handler, or a language for its script."""

    name: str
    is_script: bool = False


class Known(NamedTuple):
    """What is known of a catalogue; with `has_more` it may have any other handler too."""

    names: frozenset[str]
    languages: frozenset[str]
    has_more: bool
    code_version: str

    def has(self, need: Need) -> bool:
        """Return whether the catalogue has what a run needs."""
        if need.is_script:
            return need.name in self.languages
        return self.has_more or need.name in self.names


class Catalogues:
    """The catalogues that this scheduler knows. Thread-safe; only `learn` and `keep` do I/O.

    `clock` is monotonic seconds. `generation` grows with each catalogue that becomes known.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Known] = {}
        self._asked_at: dict[str, float] = {}
        self._asks_of: dict[str, deque[float]] = {}
        self.generation = 0

    def find(self, fingerprint: str) -> Known | None:
        """Return a catalogue; None if it is not known yet."""
        return self._known.get(fingerprint)

    def has(self, fingerprint: str, need: Need) -> bool | None:
        """Return whether an executor has what a run needs; None if that is not known yet.

        An executor that sends no catalogue may have anything.
        """
        if not fingerprint:
            return True
        known = self._known.get(fingerprint)
        return None if known is None else known.has(need)

    def learn(self, fingerprints: Iterable[str], *, again: bool = False) -> set[str]:
        """Read catalogues that are not known here, or all; return those that are not stored."""
        missing = {
            fingerprint
            for fingerprint in fingerprints
            if fingerprint and (again or fingerprint not in self._known)
        }
        if not missing:
            return set()
        stored = self._database.read(lambda session: presence.read_catalogues(session, missing))
        for fingerprint, contents in stored.items():
            try:
                self._note(fingerprint, catalogue_of(contents.encode()))
            except Malformed as error:  # a later version of Warren may have written it
                log.warning("catalogue_ignored", fingerprint=fingerprint, error=str(error))
        return missing - stored.keys()

    def is_to_be_asked(self, app: str, fingerprint: str) -> bool:
        """Return whether to ask a boot of an app for its catalogue now; notes that it is asked."""
        now = self._clock()
        with self._lock:
            self._asked_at = {item: at for item, at in self._asked_at.items() if now - at < MINUTE}
            asked = self._asks_of.setdefault(app, deque(maxlen=ASKS_A_MINUTE))
            is_early = now - self._asked_at.get(fingerprint, float("-inf")) < ASK_SECONDS
            if is_early or (len(asked) == ASKS_A_MINUTE and now - asked[0] < MINUTE):
                return False
            self._asked_at[fingerprint] = now
            asked.append(now)
            return True

    def keep(self, contents: bytes, now_ms: int) -> None:
        """Store a catalogue that was asked for; ignores others.

        Raises:
            Malformed: it is not a catalogue.

        """
        fingerprint = fingerprint_of(contents)
        if fingerprint not in self._asked_at:
            return
        catalogue, text = catalogue_of(contents), contents.decode()
        self._database.write(
            lambda session: presence.keep_catalogue(session, fingerprint, text, now_ms)
        )
        self._note(fingerprint, catalogue)
        log.info("catalogue_stored", fingerprint=fingerprint, handlers=len(catalogue.handlers))

    def retain(self, fingerprints: Collection[str]) -> None:
        """Forget all but these catalogues, if many are known."""
        with self._lock:
            if len(self._known) > KEPT:
                self._known = {
                    fingerprint: self._known[fingerprint]
                    for fingerprint in fingerprints
                    if fingerprint in self._known
                }

    def _note(self, fingerprint: str, catalogue: Catalogue) -> None:
        known = Known(
            names=frozenset(handler.name for handler in catalogue.handlers),
            languages=frozenset(catalogue.languages),
            has_more=catalogue.has_more,
            code_version=catalogue.code_version,
        )
        with self._lock:
            self._known = self._known | {fingerprint: known}
            self._asked_at.pop(fingerprint, None)
            self.generation += 1


class Abilities:
    """What each of an app's executors lacks, and the version of its code, at one instant.

    Built once for each change of the roster, so that a run costs one table look-up. For one
    thread. `fingerprints` are by address; `slots` is how many runs each can run at a time.
    """

    def __init__(
        self,
        catalogues: Catalogues | None,
        fingerprints: Mapping[str, str],
        slots: Mapping[str, int] | None = None,
    ) -> None:
        self._known = {
            address: catalogues.find(fingerprint)
            for address, fingerprint in fingerprints.items()
            if fingerprint and catalogues is not None
        }
        self._lacking: dict[Need, frozenset[str]] = {}
        self.slots = slots or {}
        self.code_versions = {
            address: known.code_version
            for address, known in self._known.items()
            if known and known.code_version
        }

    def lacking(self, need: Need) -> frozenset[str]:
        """Return the addresses that lack what a run needs, or of which that is not known yet."""
        addresses = self._lacking.get(need)
        if addresses is None:
            if len(self._lacking) >= NEEDS_KEPT:
                self._lacking.clear()
            addresses = self._lacking[need] = frozenset(
                address
                for address, known in self._known.items()
                if known is None or not known.has(need)
            )
        return addresses
