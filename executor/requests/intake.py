"""Decides what happens to each arriving trigger: it is answered at once or admitted to its lane.

The order of the checks matters. A run that is known here is always a duplicate: if it were answered
NotStarted, it might be started elsewhere too.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from warren.broker.messages import Kill, Outcome, Trigger
from warren.broker.reasons import Reason, Why, Words, from_json
from warren.executor.boot_context import BootContext
from warren.executor.journal.run_states import Stage
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.lanes.readiness import Readiness
from warren.executor.lanes.reporting import Reporting
from warren.executor.messaging.inbox import Arrival
from warren.executor.messaging.outbox import Outbox
from warren.executor.processes.interface import SlotPool

#: Most early kills kept, and for how long.
EARLY_KILL_LIMIT = 10_000
EARLY_KILL_SECONDS = 3_600.0


class EarlyKills:
    """Kills that arrived before their runs. `monotonic` returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kills: OrderedDict[int, tuple[float, Kill]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kills)

    def put(self, kill: Kill) -> None:
        """Kill a run when it arrives."""
        now = self._monotonic()
        self._kills.pop(kill.run_id, None)
        self._kills[kill.run_id] = now + EARLY_KILL_SECONDS, kill
        while len(self._kills) > EARLY_KILL_LIMIT or next(iter(self._kills.values()))[0] <= now:
            self._kills.popitem(last=False)

    def take(self, trigger: Trigger) -> Words | None:
        """Return why a run is to be killed; None if it is not. The entry is removed."""
        lasts_until, kill = self._kills.pop(trigger.run_id, (0.0, None))
        if kill is None or lasts_until <= self._monotonic():
            return None
        return why_of(kill) if kill.identity in (0, trigger.identity) else None


def why_of(kill: Kill) -> Words:
    """Return why a run is to be killed."""
    return from_json(kill.why) or kill.reason


class Intake:
    """Receives triggers of one boot. Used from the core thread.

    If the `slots` are remote, their executor has one run of a job at a time.
    """

    def __init__(
        self,
        context: BootContext,
        *,
        slots: SlotPool,
        active_runs: ActiveRuns,
        outbox: Outbox,
        early_kills: EarlyKills,
        readiness: Readiness,
        reporting: Reporting,
    ) -> None:
        self._boot_id = context.identity.boot_id
        self._address = context.identity.address
        self._run_states = context.run_states
        self._run_logs = context.run_logs
        self._clock = context.clock
        self._log = context.log
        self._slots = slots
        self._active_runs = active_runs
        self._outbox = outbox
        self._early_kills = early_kills
        self._readiness = readiness
        self._reporting = reporting
        self.counts: Counter[str] = Counter()

    def receive(self, arrivals: Sequence[Arrival]) -> None:
        """Answer or admit each trigger; all are recorded in the journal, not yet durably."""
        for arrival in arrivals:
            if isinstance(arrival.message, Trigger):
                try:
                    self._receive(arrival.message, arrival)
                except Exception as error:  # noqa: BLE001 - one trigger spoils no other
                    self._log.exception("trigger_failed", run_id=arrival.message.run_id)
                    self._give_up(arrival.message, error)

    def _receive(self, trigger: Trigger, arrival: Arrival) -> None:
        stage = self._run_states.stage(trigger.run_id)
        if stage is not Stage.UNKNOWN and self._run_states.is_another(trigger):
            if not self._displaces_another(trigger):
                return
            stage = Stage.UNKNOWN
        if stage is not Stage.UNKNOWN:
            self._repeat(trigger, stage)
        elif (order := self._early_kills.take(trigger)) is not None:
            self._reporting.refuse(trigger, order, Outcome.KILLED)
        elif self._is_unprovable(trigger, arrival):
            self._drop(trigger)
        elif trigger.boot_id != self._boot_id:
            self._return(trigger, "other_boot", Why.OTHER_BOOT(boot=trigger.boot_id))
        elif arrival.is_expired:
            self._return(trigger, "expired", Why.TRIGGER_EXPIRED())
        elif (refusal := self._readiness.refusal) is not None:
            self._return(trigger, "draining", refusal)
        elif self._slots.lacks_handler(trigger):
            why = Why.NO_HANDLER(name=trigger.handler, address=self._address)
            self._reporting.refuse(trigger, why, Outcome.FAILED)
        else:
            self.counts["taken"] += 1
            self._run_logs.set_aside(
                self._run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id)
            )
            self._active_runs.admit(self._limited(trigger), arrival.size)

    def _displaces_another(self, trigger: Trigger) -> bool:
        """Forget another run with the trigger's id unless it is open; return whether that was done.

        The database lost that run and reused its id; heartbeats report that. If it is open, the
        trigger is dropped, and its run is planned again once the schedulers ask about it.
        """
        self.counts["another"] += 1
        is_open = self._run_states.is_open(trigger.run_id)
        self._log.error(
            "run_id_repeated", run_id=trigger.run_id, job_id=trigger.job_id, is_left=is_open
        )
        self._run_states.displace(trigger.run_id)
        return not is_open

    def _limited(self, trigger: Trigger) -> Trigger:
        if self._slots.is_remote and trigger.concurrency > 1:
            return msgspec.structs.replace(trigger, concurrency=1)
        return trigger

    def _repeat(self, trigger: Trigger, stage: Stage) -> None:
        self.counts["duplicate"] += 1
        self._log.info(
            "duplicate_trigger_answered", run_id=trigger.run_id, job_id=trigger.job_id, stage=stage
        )
        if stage is Stage.FINISHED:
            self.report_again(trigger.run_id, trigger.boot_id)
        else:
            self._active_runs.report_start(trigger.run_id)

    def report_again(self, run_id: int, boot_id: str) -> bool:
        """Send the result of a finished run again; return False if there is none to send."""
        known = self._run_states.report(run_id, boot_id, now_ms=self._clock.now_ms())
        if known is not None:
            self._outbox.add(*known)
        return known is not None

    def _give_up(self, trigger: Trigger, error: Exception) -> None:
        if self._run_states.stage(trigger.run_id) is Stage.UNKNOWN:
            self._reporting.refuse(trigger, Why.NOT_TAKEN(fault=repr(error)), Outcome.FAILED)

    def _is_unprovable(self, trigger: Trigger, arrival: Arrival) -> bool:
        """Whether an earlier copy may have started in a boot or at a time that was forgotten."""
        is_copy = arrival.delivery.redelivered or trigger.resent
        return is_copy and self._run_states.may_have_forgotten(
            trigger.boot_id, trigger.routed_at_ms
        )

    def _drop(self, trigger: Trigger) -> None:
        self.counts["unprovable"] += 1
        self._log.warning(
            "trigger_dropped",
            run_id=trigger.run_id,
            job_id=trigger.job_id,
            boot_id=trigger.boot_id,
            why="it came before, and what became of it is not in the journal any more",
        )

    def _return(self, trigger: Trigger, count: str, why: Reason) -> None:
        self.counts[count] += 1
        self._reporting.send_back(trigger, why)
