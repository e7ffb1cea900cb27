"""Limits the logs of running jobs to the size cap, and keeps them out of the disk's reserve.

Jobs write their logs themselves. Output of print stops by itself (see `output`), but output of the
programs that a job starts does not, so logs that have grown too long are cut here.
"""

from collections.abc import Collection
from dataclasses import dataclass

from warren.broker.messages.values import LOG_TAIL_BYTES
from warren.broker.reasons.codes import Why, Words
from warren.executor.disk import stop_mark
from warren.executor.logs.run_logs import RunLogs


@dataclass(frozen=True, slots=True)
class FinishedLog:
    """The end of a finished log as text, and why something is missing from it, if that is known."""

    tail: str
    error: Words = ""


class LogLimiter:
    """Limits the logs of running jobs, by path. Used from one thread."""

    def __init__(self, run_logs: RunLogs) -> None:
        self._run_logs = run_logs
        #: Each log's size when the reserve was last intact.
        self._sizes: dict[str, int] = {}
        #: The size limits of logs that have been stopped.
        self._limits: dict[str, int] = {}
        self.reserve_bytes = run_logs.reserve_bytes

    def enforce(self, paths: Collection[str]) -> None:
        """Cut the logs that are too long; `paths` are all logs of running jobs."""
        self.reserve_bytes = self._run_logs.reserve_bytes  # the folder may be mounted late
        sizes = self._enforce(paths)
        if sizes is not None:
            self._sizes = sizes
        for path in self._limits.keys() - set(paths):
            del self._limits[path]

    def needs_cut(self, path: str, size: int) -> bool:
        """Whether a log may be too long, given the size that its run reported."""
        if size > self._run_logs.cap_bytes or path in self._limits:
            return True
        return size > LOG_TAIL_BYTES and self._run_logs.shortfall() > 0

    def check(self, path: str, tail: str) -> FinishedLog:
        """Return a finished log that needs no cut and whose tail is known."""
        fault = self._run_logs.fault(path)
        return FinishedLog(tail, Why.LOG_MISSING(fault=fault) if fault else "")

    def close(self, path: str) -> FinishedLog:
        """Return a finished log; cut it if it is too long, drop it if empty."""
        tail = self._run_logs.tail(path)  # before the cut: it is what the run wrote last
        self._enforce([path])
        is_stopped = self._limits.pop(path, None) is not None
        self._sizes.pop(path, None)
        finished = self.check(path, tail)
        if is_stopped and not finished.error:
            return FinishedLog(tail, Why.LOG_INCOMPLETE(why=Why.DISK_NEARLY_FULL()))
        if not tail and not finished.error:
            self._run_logs.drop_if_empty(path)
        return finished

    def _enforce(self, paths: Collection[str]) -> dict[str, int] | None:
        """Cut these logs; return their sizes if the reserve is intact."""
        sizes = {path: self._run_logs.size(path) for path in paths}
        shortfall = self._run_logs.shortfall()
        if shortfall:
            self._stop(sizes, shortfall)
        for path, size in sizes.items():
            limit = self._limits.get(path)
            if limit is not None and size > limit:
                self._run_logs.cut(path, limit, stop_mark(self.reserve_bytes))
            elif size > self._run_logs.cap_bytes:
                self._run_logs.cut_to_cap(path)
        return None if shortfall else sizes

    def _stop(self, sizes: dict[str, int], shortfall: int) -> None:
        """Stop the logs that grew most, until the shortfall is made up for."""
        grown = {path: size - self._sizes.get(path, 0) for path, size in sizes.items()}
        for path in sorted(grown, key=grown.__getitem__, reverse=True):
            surplus = min(shortfall, grown[path])
            if surplus > 0 and path not in self._limits and sizes[path] > LOG_TAIL_BYTES:
                self._limits[path] = max(LOG_TAIL_BYTES, sizes[path] - surplus)
            shortfall -= max(0, surplus)
