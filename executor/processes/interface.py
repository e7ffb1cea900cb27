"""The interface between the core and whatever runs jobs, and its options.

`warren.executor.processes.slots.Slots` uses processes, `warren.executor.gateway` uses remote
executors.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from warren.broker.codec import EncodedCatalogue
from warren.broker.messages import CallEnd, Finished, NotStarted, Progress, Trigger
from warren.broker.process_use import ProcessUse
from warren.broker.reasons import Reason, Words
from warren.executor.fork_server.confinement import Confinement
from warren.executor.fork_server.frames import Await, Call
from warren.executor.fork_server.zygote import PROCESS_LIMIT
from warren.executor.run_life import Event


class Owner(NamedTuple):
    """What a process serves: a handler, for one job or, without a job, for all jobs."""

    handler: str
    job_id: int | None = None

    @classmethod
    def of(cls, trigger: Trigger, use: ProcessUse) -> "Owner":
        """Return what a run's process serves if it is shared this way."""
        return cls(trigger.handler, None if use == ProcessUse.HANDLER else trigger.job_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions:
    """`count` runs at a time, and at most `idle_count` idle processes; None: as many as fit.

    `spare_count` processes are forked in advance, and belong to no job yet. An idle process exits
    after `idle_seconds`, any process after `runs_per_process` runs. Thousands may have been idle
    since the same burst: each sweep ends `ended_at_once` of them, so that their exits do not delay
    due runs. A process that was given several runs continues with them for `batch_seconds`, so that
    other jobs get its slot soon and no run begins long after it was assigned. A zygote that is
    silent is pinged after `ping_seconds`, and killed `silence_seconds` later. A process that is
    still there `stuck_seconds` after SIGKILL no longer holds its run open; that must be longer than
    a silent zygote may live. `process` applies where neither the job nor its handler sets it.
    Scripts in `script_languages` may run. `code_version` is reported as that of the handlers; empty
    = the commit of their folder. A replacement of the zygote may import the handlers for
    `slow_seconds` before runs go elsewhere. Once `is_unwanted` returns true, the handlers' first
    import is given up.

    Raises:
        ValueError: these would be too many processes, or no slot.

    """

    count: int
    grace_seconds: float
    idle_count: int | None = None
    spare_count: int = 0
    process: ProcessUse = ProcessUse.JOB
    idle_seconds: float = 90.0
    ended_at_once: int = 20
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
        idle = self.idle_count or 0
        if not (self.count >= 1 and idle >= 0 and self.count + idle <= PROCESS_LIMIT):
            raise ValueError(
                f"expected count and idle_count to be up to {PROCESS_LIMIT} processes, "
                f"got: {self.count} and {idle}"
            )


class SlotPool(Protocol):
    """The slots that runs are started in. Used from the core's thread.

    `is_remote`: its runs are on another host. They outlive this process, and the next one continues
    them as the same boot. A job has one run at a time, and only the remote executor knows the
    handlers.
    """

    is_remote: bool = False

    @property
    def catalogue(self) -> EncodedCatalogue | None:
        """What can be run here; None if only the other end knows. Any thread may ask."""
        return None

    @property
    def away(self) -> Reason | None:
        """Return why no runs are taken or started at present; None if they are."""
        return None

    @property
    def lacks_spares(self) -> bool:
        """Whether the processes forked in advance keep exiting."""
        return False

    @property
    def free(self) -> int:
        """How many runs could be started now."""

    def open(self) -> tuple[str, ...]:
        """Prepare for runs; return the handlers' names. Raises if the handlers cannot be loaded."""

    def lacks_handler(self, trigger: Trigger) -> bool:  # noqa: ARG002 - by default nobody knows
        """Whether a run's handler is known to be missing here."""
        return False

    def owner_of(self, trigger: Trigger) -> Owner | None:  # noqa: ARG002 - by default
        """Return what the process of a run serves; None if it serves only this run."""
        return None

    def batch_size(self, owner: Owner) -> int:  # noqa: ARG002 - by default
        """Return how many runs of an owner may be started at once, in one slot."""
        return 1

    def start(self, trigger: Trigger, *others: Trigger) -> None:
        """Start a run; requires a free slot.

        The others are the next runs of the same owner; with it they are at most `batch_size`. They
        may be assigned early to its process, which then continues with them by itself.
        """

    def is_assigned_early(self, run_id: int) -> bool:  # noqa: ARG002 - by default nothing is assigned early
        """Whether this run was assigned early, and its process has not been seen to reach it."""
        return False

    def has_begun(self, run_id: int) -> bool:  # noqa: ARG002 - by default
        """Whether a run that was started, or reached, is known to have begun."""
        return True

    def recall(self, run_id: int) -> bool:  # noqa: ARG002 - by default nothing is assigned early
        """Take back the runs assigned early with this one that have not begun.

        It calls the events for them before it returns. Returns False if this one cannot be taken
        back and has not been reached either.
        """
        return True

    def recall_all(self) -> None:
        """Take back every run that was assigned early and has not begun."""
        return

    def resume(
        self,
        trigger: Trigger,
        started_at_ms: int,  # noqa: ARG002 - remote
        age_seconds: float,  # noqa: ARG002 - remote
    ) -> None:
        """Continue a remote run that an earlier process started."""
        raise RuntimeError(f"expected run {trigger.run_id} to be remote")

    def refresh_log(self, run_id: int, then: Callable[[], None]) -> None:  # noqa: ARG002 - remote
        """Call `then` once the log of a run is as recent as it can be here; never waits."""
        then()

    def has_late_log(self, run_id: int) -> bool:  # noqa: ARG002 - remote
        """Whether the log of an ended run is still incomplete here."""
        return False

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers; by default there are none here."""
        then("")

    def stop(self, run_id: int, why: Words) -> bool:
        """End a run, which then finishes KILLED; return False if it is not running."""

    def cut_off(self, run_id: int) -> bool:
        """End a run because the executor shuts down; it finishes FAILED. Returns as `stop`."""

    def close(self, grace_seconds: float) -> "asyncio.Future[None]":
        """End every process; the future is done when none is left."""


def _ignore(_run_id: int, _event: object) -> None:
    """Do nothing, for slots that assign nothing early or report no progress."""


def _no_end(_call: Await) -> CallEnd | None:
    """Do nothing, for slots whose runs call nobody."""
    return None


def _keep(_call: Call, then: Callable[[], None]) -> None:
    """Treat a call as kept, for slots whose runs make no calls."""
    then()


@dataclass(frozen=True, slots=True)
class SlotEvents:
    """What slots call from the loop, never from within `start`.

    `started(run_id)` comes before the end only. `finished(end, on_recorded)` is the end of a run;
    `on_recorded`, if there is one, is called once that is in the journal. `ready` is called when
    `free` has grown without the end of a run. `moved(run_id, event)` is about a run assigned early:
    REACHED, right after the end of the one before; NOT_BEGUN if it was not reached after all;
    HANDED_BACK if it will not be.
    `progressed` reports a run's progress. `called(call, then)` says that a run calls another one;
    `then` is called once that is durable. `awaited(call)` returns how the run of a call has ended,
    None = not yet known.
    """

    started: Callable[[int], None]
    finished: Callable[[Finished | NotStarted, Callable[[], None] | None], None]
    ready: Callable[[], None]
    moved: Callable[[int, Event], None] = _ignore
    progressed: Callable[[int, Progress], None] = _ignore
    called: Callable[[Call, Callable[[], None]], None] = _keep
    awaited: Callable[[Await], CallEnd | None] = _no_end


class SlotsFactory(Protocol):
    """Creates the slots of one boot."""

    def __call__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        events: SlotEvents,
        script_folder: Path,
        notes_folder: Path,
    ) -> SlotPool:
        """Return slots that are not open yet; nothing else uses `script_folder`.

        Job processes may note what they begin in files in `notes_folder`.
        """
