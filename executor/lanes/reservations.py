"""Makes the starts of the next runs durable in advance, so that no slot waits for the disk.

After a crash of the host, and only then, reserved runs that had not started count as lost.
"""

from functools import partial
from itertools import takewhile

from warren.broker.messages.to_executor import Trigger
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.run_states import RunStates
from warren.executor.lanes.lanes import Lanes
from warren.executor.processes.interface import SlotPool

#: The most reserved runs of one lane.
RESERVED_DEPTH = 8


class Reservations:
    """The waiting runs that are reserved: up to `limit`. Used from the core thread."""

    def __init__(
        self,
        lanes: Lanes,
        run_states: RunStates,
        commits: GroupCommit,
        *,
        limit: int,
        slots: SlotPool,
    ) -> None:
        self._limit = limit
        self._lanes = lanes
        self._run_states = run_states
        self._commits = commits
        self._slots = slots
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

    def batch_of(self, head: Trigger) -> list[Trigger]:
        """Return the runs that one process may be given at once, this one first.

        They are of the same job or, if its process serves a handler, of others: then those that are
        next of all, which the lanes hold back for it.
        """
        owner = self._slots.owner_of(head)
        size = 1 if owner is None else self._slots.batch_size(owner)
        if owner is None or size <= 1 or head.concurrency > 1:
            return [head]

        def fits(trigger: Trigger) -> bool:
            is_like = trigger.concurrency <= 1 and self._slots.owner_of(trigger) == owner
            return is_like and self.is_durable(trigger.run_id)

        batch = [head, *takewhile(fits, self._lanes.following(head.job_id, size - 1))]
        if owner.job_id is None:
            batch += self._lanes.take_ahead(size - len(batch), fits)
        return batch

    def _mark_durable(self, run_ids: list[int]) -> None:
        for run_id in run_ids:
            if run_id in self._runs:
                self._runs[run_id] = True
