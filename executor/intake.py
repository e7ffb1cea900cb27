"""What becomes of each trigger that arrives: answered at once, or admitted to its lane.

The order of the questions matters. A run that is known here is a duplicate whatever else is
true of it: were it answered NotStarted it might be started elsewhere too.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence

import structlog

from broker.messages import Outcome, Trigger
from executor import reports
from executor.inbox import Arrival
from executor.ledger import Ledger, Stage
from executor.outbox import Outbox
from executor.readiness import Readiness
from executor.sender import Identity
from executor.workload import Workload

#: Kills of runs not yet here that are remembered, and for how long.
TOMBSTONE_LIMIT = 10_000
TOMBSTONE_SECONDS = 3_600.0


class Tombstones:
    """Kills that came before their runs. `monotonic` gives seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._stones: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._stones)

    def put(self, run_id: int, reason: str) -> None:
        """Remember that a run is to be killed when it comes."""
        now = self._monotonic()
        self._stones.pop(run_id, None)
        self._stones[run_id] = now + TOMBSTONE_SECONDS, reason
        while len(self._stones) > TOMBSTONE_LIMIT or next(iter(self._stones.values()))[0] <= now:
            self._stones.popitem(last=False)

    def take(self, run_id: int) -> str | None:
        """Return why a run is to be killed, None when it is not."""
        lasts_until, reason = self._stones.pop(run_id, (0.0, ""))
        return reason if lasts_until > self._monotonic() else None


class Intake:
    """Receives triggers of one boot. Used from the core thread."""

    def __init__(
        self,
        *,
        identity: Identity,
        handlers: Collection[str],
        ledger: Ledger,
        workload: Workload,
        outbox: Outbox,
        tombstones: Tombstones,
        readiness: Readiness,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._boot_id = identity.boot_id
        self._address = identity.address
        self._handlers = frozenset(handlers)
        self._ledger = ledger
        self._workload = workload
        self._outbox = outbox
        self._tombstones = tombstones
        self._readiness = readiness
        self._log = log
        self.counts: Counter[str] = Counter()

    def receive(self, arrivals: Sequence[Arrival]) -> None:
        """Answer or admit each trigger; all are noted in the ledger, not yet durably."""
        for arrival in arrivals:
            if isinstance(arrival.message, Trigger):
                try:
                    self._receive(arrival.message, arrival)
                except Exception as error:  # noqa: BLE001 - one trigger spoils no other
                    self._log.exception("trigger_failed", run_id=arrival.message.run_id)
                    self._give_up(arrival.message, error)

    def _receive(self, trigger: Trigger, arrival: Arrival) -> None:
        stage = self._ledger.stage(trigger.run_id)
        if stage is not Stage.UNKNOWN:
            self._repeat(trigger, stage)
        elif (reason := self._tombstones.take(trigger.run_id)) is not None:
            self._workload.refuse(trigger, reason, Outcome.KILLED)
        elif self._is_unprovable(trigger, arrival):
            self._drop(trigger)
        elif trigger.boot_id != self._boot_id:
            self._return(trigger, "other_boot", f"it was addressed to boot {trigger.boot_id}")
        elif arrival.is_expired:
            self._return(trigger, "expired", "its trigger came too late")
        elif self._readiness.is_draining:
            self._return(trigger, "draining", "the executor is shutting down")
        elif not trigger.script_language and trigger.handler not in self._handlers:
            reason = f"no handler named {trigger.handler!r} on {self._address}"
            self._workload.refuse(trigger, reason, Outcome.FAILED)
        else:
            self.counts["taken"] += 1
            self._workload.admit(trigger, len(arrival.delivery.body))

    def _repeat(self, trigger: Trigger, stage: Stage) -> None:
        self.counts["duplicate"] += 1
        self._log.info(
            "duplicate_trigger_answered", run_id=trigger.run_id, job_id=trigger.job_id, stage=stage
        )
        if stage is Stage.FINISHED:
            self.report_again(trigger.run_id, trigger.boot_id)
        else:
            self._workload.repeat_started(trigger.run_id)

    def report_again(self, run_id: int, boot_id: str) -> bool:
        """Send the result of a finished run once more; False when it is not finished."""
        known = self._ledger.report(run_id, boot_id)
        if known is not None:
            self._outbox.add(*known)
        return known is not None

    def _give_up(self, trigger: Trigger, error: Exception) -> None:
        if self._ledger.stage(trigger.run_id) is Stage.UNKNOWN:
            self._workload.refuse(trigger, f"cannot take it: {error!r}", Outcome.FAILED)

    def _is_unprovable(self, trigger: Trigger, arrival: Arrival) -> bool:
        """Whether an earlier copy may have been started by a boot, or at a time, now forgotten."""
        is_copy = arrival.delivery.redelivered or trigger.resent
        return is_copy and self._ledger.may_have_forgotten(trigger.boot_id, trigger.routed_at_ms)

    def _drop(self, trigger: Trigger) -> None:
        self.counts["unprovable"] += 1
        self._log.warning(
            "trigger_dropped",
            run_id=trigger.run_id,
            job_id=trigger.job_id,
            boot_id=trigger.boot_id,
            why="it came before, and what became of it is not in the journal any more",
        )

    def _return(self, trigger: Trigger, count: str, reason: str) -> None:
        self.counts[count] += 1
        self._log.info("run_returned", run_id=trigger.run_id, job_id=trigger.job_id, why=reason)
        self._workload.report(reports.not_started(trigger, reason))
