"""Stacks to measure on, each filled and started as an axis needs it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from benchmarks import throughput
from benchmarks.console_rows import Size, fill_at_rest
from benchmarks.servers import Servers
from benchmarks.stack import Stack
from warren.database_access import now_ms
from warren.sql.engine import Database

APPS = 20
#: Time limit of a statement that fills a table.
FILLING_SECONDS = 3_600
#: Runs before the measurement, to warm up.
WARM_UP_RUNS = 100
#: Stored runs are up to 30 days old; clear none unless that is measured.
KEEP_ALL = {"WARREN_RUN_RETENTION_DAYS": "0"}


@dataclass
class Laboratory:
    """The private services and the stacks of one axis; all end with the block.

    `runs` is the load of one measurement.
    """

    servers: Servers
    axis: str
    runs: int
    _stacks: list[Stack] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stack in self._stacks:
            stack.close()

    def audit(self) -> None:
        """Recompute every due time of all stacks.

        Raises:
            AssertionError: one was lost or fired twice.

        """
        for stack in self._stacks:
            stack.audit()

    @cached_property
    def plain(self) -> Stack:
        """One scheduler and one executor, with nothing stored."""
        return self.stack()

    def stack(
        self,
        *,
        jobs: int = 0,
        runs: int = 0,
        schedulers: int = 1,
        env: Mapping[str, str] = KEEP_ALL,
    ) -> Stack:
        """Return a warmed-up stack with this many jobs and runs stored."""
        url = self._filled(jobs, runs) if jobs else None
        stack = Stack(self.servers, name=f"{self.axis}-{len(self._stacks)}", url=url)
        self._stacks.append(stack)
        stack.start(schedulers=schedulers, env=env)
        throughput.measure(stack, throughput.jobs(stack, 1), WARM_UP_RUNS)
        return stack

    def _filled(self, jobs: int, runs: int) -> str:
        url = self.servers.database.create_database()
        database = Database(url, answer_seconds=FILLING_SECONDS)
        try:
            fill_at_rest(database, Size(jobs, runs, APPS), now_ms(database), _say)
        finally:
            database.close()
        return url


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
