"""Brings runs from their lanes into slots, each start being in the journal first.

STARTING is durable ──────────────> slot
reserved ──STARTING is written──> slot, with the next runs of its job handed ahead

Makes the starts of the next runs durable in advance, so that no slot waits for the disk.

After a crash of the host, and only then, reserved runs that had not started count as lost.
"""

from collections.abc import Callable, Sequence
from functools import partial

from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why
from warren.executor.boot_context import BootContext
from warren.executor.errors import JournalFailed
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.run_states import RunStates
from warren.executor.lanes.lanes import Lanes
from warren.executor.lanes.reporting import ActiveRun, Phase, Reporting
from warren.executor.processes.interface import SlotPool

#: The most reserved runs of one lane.
RESERVED_DEPTH = 8


class Reservations:
    """The waiting runs that are reserved: up to `limit`. Used from the core thread."""

    def __init__(
        self, lanes: Lanes, run_states: RunStates, commits: GroupCommit, *, limit: int
    ) -> None:
        self._limit = limit
        self._lanes = lanes
        self._run_states = run_states
        self._commits = commits
        #: The reserved runs; True once that is durable.
        self._runs: dict[int, bool] = {}

    def release(self, run_id: int) -> bool:
        """Forget a run that no longer waits; return whether its reservation is durable."""
        return self._runs.pop(run_id, False)

    def is_durable(self, run_id: int) -> bool:
        """Whether a waiting run could start without waiting for the disk."""
        return self._runs.get(run_id, False)

    def restore(self, run_id: int) -> None:
        """Remember a run again that waits again, and whose reservation was durable."""
        self._runs[run_id] = True

    def renew(self) -> None:
        """Reserve the next runs once half of the limit is free, so that no start has to wait."""
        if len(self._runs) > self._limit // 2 or not self._lanes.waiting_count:
            return
        fresh = []
        for run_id in self._lanes.upcoming(RESERVED_DEPTH):
            if run_id not in self._runs:
                self._runs[run_id] = False
                fresh.append(run_id)
            if len(self._runs) >= self._limit:
                break
        if fresh:
            self._run_states.reserve(tuple(fresh))
            self._commits.when_durable(partial(self._mark_durable, fresh))

    def _mark_durable(self, run_ids: list[int]) -> None:
        for run_id in run_ids:
            if run_id in self._runs:
                self._runs[run_id] = True


class Launcher:
    """Starts runs that their lanes let go. `on_unstarted` is called with one that cannot start."""

    def __init__(
        self,
        context: BootContext,
        *,
        slots: SlotPool,
        commits: GroupCommit,
        lanes: Lanes,
        reservations: Reservations,
        reporting: Reporting,
        on_unstarted: Callable[[ActiveRun], None],
    ) -> None:
        self._run_states = context.run_states
        self._clock = context.clock
        self._log = context.log
        self._slots = slots
        self._commits = commits
        self._lanes = lanes
        self._reservations = reservations
        self._reporting = reporting
        self._on_unstarted = on_unstarted
        self._reserved: list[ActiveRun] = []
        self._starting_count = 0

    @property
    def is_starting(self) -> bool:
        """Whether runs are on their way into a slot."""
        return self._starting_count > 0

    @property
    def free_slots(self) -> int:
        """How many more runs could be started now."""
        return max(0, self._slots.free - self._starting_count)

    def prepare(self, run: ActiveRun, *, is_reserved: bool) -> None:
        """Note a run's start; a reserved one waits for `launch_reserved`, others for the disk."""
        run.phase = Phase.STARTING
        run.started_at_ms = self._clock.now_ms()
        self._starting_count += 1
        host_at_ms = self._clock.host_ms() if self._slots.is_remote else None
        self._run_states.start(run.starting(host_at_ms))
        if is_reserved:
            self._reserved.append(run)
        else:
            self._commits.when_durable(partial(self._launch, run))

    def launch_reserved(self) -> None:
        """Start the reserved runs that were prepared."""
        if not self._reserved:
            return
        runs, self._reserved = self._reserved, []
        batches = [(run, self._hand_ahead(run.trigger)) for run in runs]
        try:
            self._run_states.write()
        except JournalFailed:
            for run in runs:
                self._commits.when_durable(partial(self._launch, run))
            return
        for run, followers in batches:
            self._launch(run, followers)
        self._commits.schedule()

    def _hand_ahead(self, head: Trigger) -> list[Trigger]:
        """Return the runs that the process of this one may go on with; the journal has them."""
        if not _may_share(head) or not (most := self._slots.look_ahead):
            return []
        followers: list[Trigger] = []
        for trigger in self._lanes.following(head.job_id, most):
            is_alike = trigger.handler == head.handler and _may_share(trigger)
            if not is_alike or not self._reservations.is_durable(trigger.run_id):
                break
            followers.append(trigger)
        if followers:
            ids = tuple(trigger.run_id for trigger in (head, *followers))
            self._run_states.hand_over(ids)
        return followers

    def _launch(self, run: ActiveRun, followers: Sequence[Trigger] = ()) -> None:
        self._starting_count -= 1
        trigger = run.trigger
        if run.stop is not None:
            self._on_unstarted(run)
            self._reporting.stopped_before_start(trigger, run.stop)
            return
        if not self._slots.free:
            self._on_unstarted(run)
            self._reporting.not_started(trigger, Why.SLOT_GONE())
            return
        run.phase = Phase.RUNNING
        try:
            self._slots.start(trigger, followers)
        except Exception as error:  # noqa: BLE001 - the run ends with the reason
            self._log.exception("run_start_failed", run_id=trigger.run_id, job_id=trigger.job_id)
            self._on_unstarted(run)
            self._reporting.end(trigger, Outcome.FAILED, Why.START_FAILED(fault=str(error)))


def _may_share(trigger: Trigger) -> bool:
    """Whether a process may get this run along with others: its job has one run at a time."""
    is_alone = trigger.fresh_process or trigger.script_language
    return trigger.concurrency <= 1 and not is_alone
