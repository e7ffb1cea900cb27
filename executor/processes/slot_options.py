"""How many job processes an executor has, how long they live, and what they may run."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.fork_server import PROCESS_LIMIT

#: Idle processes kept for each slot by default.
IDLE_PER_SLOT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """`count` runs at a time, and at most `idle_count` idle processes.

    An idle process exits after `idle_seconds`, any process after `runs_per_process` runs.
    A process that was handed several runs goes on with them for `batch_seconds`, so that other jobs
    get its slot soon and nothing begins long after it was handed over.
    A zygote that is silent is pinged after `ping_seconds`, and killed `silence_seconds` later. A
    process that is still there `stuck_seconds` after SIGKILL no longer holds its run open; that
    must be longer than a silent zygote may live.
    `fresh_process` applies to jobs that do not set it. Scripts in `script_languages` may run.
    `code_version` is told of the handlers; empty: the commit of their folder.
    A replacement of the zygote may import the handlers for `slow_seconds` before runs go elsewhere.
    Once `is_unwanted` returns true, the handlers' first import is given up.

    Raises:
        ValueError: these would be too many processes, or no slot.

    """

    count: int
    grace_seconds: float
    idle_count: int | None = None
    fresh_process: bool = False
    idle_seconds: float = 90.0
    runs_per_process: int = 1000
    batch_seconds: float = 0.005
    stuck_seconds: float = 20.0
    ping_seconds: float = 3.0
    silence_seconds: float = 12.0
    slow_seconds: float = 10.0
    script_languages: Collection[str] = ()
    code_version: str = ""
    confinement: Confinement = field(default_factory=Confinement)
    is_unwanted: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        if not (self.count >= 1 and self.most_idle >= 0 and self.most_processes <= PROCESS_LIMIT):
            raise ValueError(
                f"expected count and idle_count to be up to {PROCESS_LIMIT} processes, "
                f"got: {self.count} and {self.most_idle}"
            )

    @property
    def most_idle(self) -> int:
        """The most idle processes."""
        return IDLE_PER_SLOT * self.count if self.idle_count is None else self.idle_count

    @property
    def most_processes(self) -> int:
        """The most processes with a run, idle or exiting."""
        return self.count + self.most_idle
