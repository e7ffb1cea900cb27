"""Reports starts, progress and ends of runs to the schedulers; an end goes to the journal first.

Progress is reported once a second, of runs that last a while.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from warren.broker.messages import (
    LOG_TAIL_BYTES,
    NODE,
    PROGRESS_LIMIT,
    Called,
    Finished,
    NotStarted,
    Outcome,
    Progress,
    Progressed,
    Started,
    Trigger,
    cut_message,
)
from warren.broker.reasons import Why, Words
from warren.broker.stored_reasons import to_json
from warren.executor.boot_context import BootContext
from warren.executor.fork_server.frames import Call
from warren.executor.journal.file import Final
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.messaging.outbox import Outbox, Sender
from warren.executor.run_life import Stop


def end_of(trigger: Trigger, outcome: Outcome, why: Words, now_ms: int) -> Finished:
    """Return the end of a run that never had a process."""
    return Finished(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        outcome=outcome,
        message=cut_message(str(why)),
        why=to_json(why),
        finished_at_ms=now_ms,
        identity=trigger.identity,
    )


def not_started(trigger: Trigger, why: Words, *, is_full: bool = False) -> NotStarted:
    """Report that a run never started here and never will; `is_full`: for lack of room."""
    return NotStarted(
        run_id=trigger.run_id,
        boot_id=trigger.boot_id,
        reason=cut_message(str(why)),
        why=to_json(why),
        is_full=is_full,
        identity=trigger.identity,
    )


def _is_alone(trigger: Trigger) -> bool:
    """Whether a run is its whole tick, is no flow's node, and holds no limits."""
    is_whole = trigger.shard_total <= 1 and not trigger.attempt
    return is_whole and trigger.kind != NODE and not trigger.holds_limits


def stamped(finished: Finished, trigger: Trigger, started_at_ms: int, now_ms: int) -> Finished:
    """Return a run's end as the slots reported it, in the scheduler's time and within limits."""
    return msgspec.structs.replace(
        finished,
        boot_id=trigger.boot_id,
        message=cut_message(finished.message),
        started_at_ms=started_at_ms if finished.started_at_ms else 0,
        finished_at_ms=now_ms,
        log_tail=finished.log_tail[-LOG_TAIL_BYTES:],
        alone_of_job=trigger.job_id if _is_alone(trigger) else 0,
        due_at_ms=trigger.due_at_ms,
        identity=trigger.identity,
    )


#: About how large a Started is, in bytes.
_STARTED_BYTES = 100


class Reporting:
    """Reports on runs of one boot. Used from the core thread."""

    def __init__(self, context: BootContext, commits: GroupCommit, outbox: Outbox) -> None:
        self._run_states = context.run_states
        self._clock = context.clock
        self._log = context.log
        self._commits = commits
        self._outbox = outbox

    def started(self, trigger: Trigger, started_at_ms: int) -> None:
        """Report that a run is running."""
        started = Started(
            run_id=trigger.run_id,
            boot_id=trigger.boot_id,
            started_at_ms=started_at_ms,
            identity=trigger.identity,
        )
        self._outbox.add(started, _STARTED_BYTES)

    def called(self, call: Call, trigger: Trigger, then: Callable[[], None]) -> None:
        """Report that a run calls another one; call `then` once that is durable."""
        report = Called(
            run_id=call.run_id,
            boot_id=trigger.boot_id,
            number=call.number,
            job=call.job,
            param=call.param,
            identity=trigger.identity,
        )
        fit, size = self._run_states.call(report)
        self._commits.when_durable(partial(self._outbox.add, fit, size))
        self._commits.when_durable(then)

    def finished(self, finished: Finished, trigger: Trigger, started_at_ms: int) -> None:
        """Report the end of a run as its slot reported it."""
        now_ms = self._clock.now_ms()
        self.report(stamped(finished, trigger, started_at_ms, now_ms))

    def refuse(self, trigger: Trigger, why: Words, outcome: Outcome = Outcome.REFUSED) -> None:
        """Report the end of a run that was not taken."""
        facts = {"run_id": trigger.run_id, "job_id": trigger.job_id, "outcome": outcome}
        self._log.info("run_refused", **facts, why=str(why))
        self.end(trigger, outcome, why)

    def send_back(self, trigger: Trigger, why: Words, *, is_full: bool = False) -> None:
        """Report that a run was not taken and may go elsewhere; `is_full`: there was no room."""
        self._log.info("run_returned", run_id=trigger.run_id, job_id=trigger.job_id, why=str(why))
        self.report(not_started(trigger, why, is_full=is_full))

    def end(self, trigger: Trigger, outcome: Outcome, why: Words) -> None:
        """Report the end of a run that never had a process."""
        self.report(end_of(trigger, outcome, why, self._clock.now_ms()))

    def not_started(self, trigger: Trigger, why: Words) -> None:
        """Report that a run was taken, but never started."""
        self.report(not_started(trigger, why))

    def stopped_before_start(self, trigger: Trigger, stop: Stop) -> None:
        """Report a run that was stopped before it had a process.

        Only a kill ends it for good; otherwise it may go elsewhere.
        """
        if stop.outcome is Outcome.KILLED:
            self.end(trigger, stop.outcome, stop.words)
        else:
            self.not_started(trigger, stop.words)

    def drop_closed(self, trigger: Trigger) -> None:
        """Report that a waiting run is gone: if it is LOST, the schedulers may plan it again."""
        self._log.info("run_dropped", run_id=trigger.run_id, job_id=trigger.job_id)
        self.not_started(trigger, Why.CLOSED_OUT_OF_CONTACT())

    def report(self, report: Final) -> None:
        """Record a run's end and send it after the next commit, even if that fails."""
        fit, size = self._run_states.finish(report)
        self._commits.after_commit_attempt(partial(self._outbox.add, fit, size))


#: The time between two messages about progress, and from a run's first report to its first message:
#: until then the schedulers may not know that it is running, and would ignore it.
PROGRESS_SECONDS, FIRST_SECONDS = 1.0, 1.5
#: How long a message is valid: later ones replace it.
PROGRESS_VALID_SECONDS = 10.0


class ProgressReports:
    """The latest progress of this boot's runs. Used from the core's thread."""

    def __init__(self, sender: Sender, monotonic: Callable[[], float]) -> None:
        self._sender = sender
        self._monotonic = monotonic
        self._first_at: dict[int, float] = {}
        self._changed: dict[int, Progress] = {}
        self._sent_at = -PROGRESS_SECONDS

    def note(self, run_id: int, progress: Progress) -> None:
        self._first_at.setdefault(run_id, self._monotonic())
        self._changed[run_id] = progress

    def forget(self, run_id: int) -> None:
        """Forget a run that has ended."""
        self._first_at.pop(run_id, None)
        self._changed.pop(run_id, None)

    def send_due(self) -> None:
        """Send what has changed, if it is time."""
        now = self._monotonic()
        if not self._changed or now - self._sent_at < PROGRESS_SECONDS:
            return
        old = [run_id for run_id in self._changed if now - self._first_at[run_id] >= FIRST_SECONDS]
        if not old:
            return
        runs = {run_id: self._changed.pop(run_id) for run_id in old[:PROGRESS_LIMIT]}
        self._sent_at = now
        who = self._sender.identity
        message = Progressed(app=who.app, address=who.address, boot_id=who.boot_id, runs=runs)
        self._sender.send(message, valid_seconds=PROGRESS_VALID_SECONDS)
