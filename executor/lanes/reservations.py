"""Makes the starts of the next runs durable in advance, so that no slot waits for the disk.

After a crash of the host, and only then, reserved runs that had not started count as lost.
"""

from functools import partial

from warren.broker.messages.to_executor import Trigger
from warren.broker.process_use import ProcessUse
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.run_states import RunStates
from warren.executor.lanes.lanes import Lanes

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

    def release(self, run_id: int) -> None:
        """Forget a run that no longer waits."""
        self._runs.pop(run_id, None)

    def is_durable(self, run_id: int) -> bool:
        """Whether a waiting run could start without waiting for the disk."""
        return self._runs.get(run_id, False)

    def restore(self, run_id: int) -> None:
        """Restore the durable reservation of a run that waits again."""
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

    def batch_of(self, head: Trigger, size: int) -> list[Trigger]:
        """Return up to so many runs that one process may be given at once, this one first."""
        batch = [head]
        if size <= 1 or not _may_share(head):
            return batch
        for trigger in self._lanes.following(head.job_id, size - 1):
            is_alike = trigger.handler == head.handler and _may_share(trigger)
            if not is_alike or not self.is_durable(trigger.run_id):
                break
            batch.append(trigger)
        return batch

    def _mark_durable(self, run_ids: list[int]) -> None:
        for run_id in run_ids:
            if run_id in self._runs:
                self._runs[run_id] = True


def _may_share(trigger: Trigger) -> bool:
    """Whether a process may get this run along with others: its job has one run at a time."""
    is_alone = trigger.process == ProcessUse.FRESH or trigger.script_language
    return trigger.concurrency <= 1 and not is_alone
