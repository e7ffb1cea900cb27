"""Deletes from the log store the logs of runs that were deleted.

Who deletes runs leaves the rows of their logs behind, to be deleted later. A log is deleted only
once no executor can store it any more: the address that it was given has expired.
"""

from collections import deque
from collections.abc import Sequence

import structlog

from warren.scheduler.log_store.store import PLACE_SECONDS, LogStore, StoreUnavailable, all_keys
from warren.sql.engine import Database
from warren.sql.registry.cluster import LeaseHolder
from warren.sql.runs import stored_logs
from warren.sql.runs.stored_logs import LogRow

LEASE = "log removal"
POLL_SECONDS = 5.0
#: Logs that are deleted at once, and about how many files: executors say how many parts there are.
BATCH, FILES = 500, 10_000
#: An upload that began just before its address expired may take as long again.
GRACE_MS = 2_000 * PLACE_SECONDS
#: When a log is tried again that could not be deleted.
AGAIN_MS = 600_000
#: The most logs whose parts wait to be deleted.
MOST_WITH_PARTS = 10_000

log = structlog.get_logger()


class LogRemoval:
    """Deletes logs while this scheduler holds the lease.

    Args:
        node: this scheduler's name.
        database: knows which logs are to be deleted.
        store: has them.
        grace_ms: how long after an executor was told where to store a log it is left alone.

    """

    def __init__(
        self, *, node: str, database: Database, store: LogStore, grace_ms: int = GRACE_MS
    ) -> None:
        self._database = database
        self._store = store
        self._lease = LeaseHolder(LEASE, node=node, database=database)
        self._grace_ms = grace_ms
        self._is_prepared = False
        self._with_parts: deque[LogRow] = deque(maxlen=MOST_WITH_PARTS)

    def drop_parts(self, rows: Sequence[LogRow]) -> None:
        """Delete the parts of logs that are stored as a whole by now; from any thread.

        Those that are forgotten when this scheduler ends go with their runs.
        """
        if rows:
            self._with_parts.extend(rows)

    def run_round(self, now_ms: int) -> float:
        """Delete some logs; return the seconds to wait. The first round prepares the store.

        Raises:
            StoreUnavailable: the store does not answer; nothing is forgotten.

        """
        self._drop_parts()
        if not self._lease.take(now_ms):
            return POLL_SECONDS
        if not self._is_prepared:
            self._store.prepare()
            self._is_prepared = True
        before_ms = now_ms - self._grace_ms
        rows = self._database.read(
            lambda session: stored_logs.to_delete(
                session, now_ms, told_before_ms=before_ms, limit=BATCH
            )
        )
        if not rows:
            return POLL_SECONDS
        some = _first_of(rows)
        self._delete(some, now_ms)
        return 0.0 if len(some) < len(rows) or len(rows) == BATCH else POLL_SECONDS

    def leave(self) -> None:
        """Release the lease, so that another scheduler continues at once."""
        self._lease.release()

    def _drop_parts(self) -> None:
        rows = _first_of(list(self._with_parts))
        if not rows:
            return
        for _ in rows:
            self._with_parts.popleft()
        parts = [key for row in rows for key in all_keys(row.key, row.parts)[1:]]
        faults = self._store.delete(parts)
        if not faults:
            none = [{"run_id": row.run_id, "parts": 0} for row in rows]
            self._database.write(lambda session: stored_logs.note(session, none))

    def _delete(self, rows: list[LogRow], now_ms: int) -> None:
        # One part more than were told of: its executor may have died before it told of the last.
        by_run = {row.run_id: all_keys(row.key, row.parts + 1) for row in rows}
        faults = self._store.delete([key for keys in by_run.values() for key in keys])
        left = [run_id for run_id, keys in by_run.items() if not faults.keys().isdisjoint(keys)]
        gone = sorted(by_run.keys() - set(left))
        self._database.write(lambda session: stored_logs.forget(session, gone))
        if gone:
            log.info("stored_logs_deleted", count=len(gone))
        if left:
            why = next(iter(faults.values()))
            log.warning("stored_logs_not_deleted", count=len(left), run_ids=left[:20], why=why)
            self._database.write(
                lambda session: stored_logs.postpone(session, left, now_ms + AGAIN_MS)
            )
        if not gone:
            raise StoreUnavailable(f"no log could be deleted: {next(iter(faults.values()))}")


def _first_of(rows: Sequence[LogRow]) -> list[LogRow]:
    """Return the first rows, which together have about FILES files; at least one."""
    first: list[LogRow] = []
    files = 0
    for row in rows:
        if files >= FILES:
            break
        first.append(row)
        files += row.parts + 1
    return first
