"""Decides about arriving triggers, and handles the commands and questions for one boot.

Each trigger is answered at once or admitted to its lane. The order of the checks matters. A run
that is known here is always a duplicate: if it were answered NotStarted, it might be started
elsewhere too.

Commands and questions are answered to the asker's own queue. While a job process waits for a run
that it called, the schedulers are asked again now and then: questions and answers may get lost.
"""

import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages import (
    ADDRESS_PATTERN,
    Beat,
    BeatAnswer,
    CallEnd,
    CallEndQuery,
    CallEndReply,
    CallName,
    IdleBeat,
    IdleBeatAnswer,
    Kill,
    KnownState,
    LogChunk,
    LogPlaces,
    Message,
    NotStarted,
    OpenRunsReply,
    Outcome,
    ReadLog,
    RunKey,
    RunStateQuery,
    RunStateReply,
    Trigger,
    wire_type,
)
from warren.broker.reasons import Reason, Why, Words
from warren.broker.stored_reasons import from_json, to_json
from warren.executor.boot_context import BootContext
from warren.executor.fork_server.frames import Await
from warren.executor.journal.run_states import Stage
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.lanes.readiness import Contact, Readiness
from warren.executor.lanes.reporting import Reporting
from warren.executor.messaging.heartbeat import LoadMeter
from warren.executor.messaging.inbox import Arrival
from warren.executor.messaging.outbox import Outbox, Sender
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
        self._known_epoch = context.known_epoch
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
            if not isinstance(arrival.message, Trigger):
                continue
            if self._known_epoch.is_outdated(arrival.message):
                self._drop_outdated(arrival.message)
            else:
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
            self._readiness.note_other_boot(trigger.routed_at_ms)
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
        """Forget another run with the trigger's id unless it is open; return whether it is gone.

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

    def _drop_outdated(self, trigger: Trigger) -> None:
        """Answer nothing: the run of that id in the newer database may be another one."""
        self.counts["outdated"] += 1
        self._log.error(
            "outdated_trigger_dropped",
            run_id=trigger.run_id,
            job_id=trigger.job_id,
            epoch=trigger.epoch,
            newest=self._known_epoch.told[0],
        )

    def _return(self, trigger: Trigger, count: str, why: Reason) -> None:
        self.counts[count] += 1
        self._reporting.send_back(trigger, why)


#: Seconds between two questions about a call, at first and at most, and for which one is valid.
SHORTEST_ASK, LONGEST_ASK = 0.1, 2.0
QUESTION_SECONDS = 10.0
#: The most calls that are remembered: of others, an answer or the last question is forgotten.
REMEMBERED = 1_000
#: The queues that answers may be sent to: only those that carry nothing but answers.
REPLY_TO_PATTERN = re.compile(rf"answer\.{ADDRESS_PATTERN}")
#: The most boots that are not known here of which it is remembered when they were asked about.
STRANGE_BOOTS = 1_000
#: How long an answer is valid.
ANSWER_SECONDS = 30.0
#: Most lines in one answer, whatever the question says.
LINE_LIMIT = 10_000
#: Characters that take six bytes in JSON.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class AwaitedCalls:
    """The calls that runs wait for. Used from the core thread; `now` is a monotonic clock."""

    def __init__(self, sender: Sender, now: Callable[[], float]) -> None:
        self._sender = sender
        self._now = now
        #: Each call with its end, or with when it was asked about first and last.
        self._known: OrderedDict[tuple[int, int], CallEnd | tuple[float, float]] = OrderedDict()

    def end_of(self, call: Await, identity: int) -> CallEnd | None:
        """Return how the run of a call has ended; None = not yet known, but asked.

        `identity` is that of the caller's trigger.
        """
        key = (call.run_id, call.number)
        known = self._known.get(key)
        if isinstance(known, CallEnd):
            del self._known[key]  # it is told once
            return known
        now = self._now()
        first, last = known or (now, -math.inf)
        if now - last >= min(LONGEST_ASK, max(SHORTEST_ASK, (now - first) / 4)):
            self._keep(key, (first, now))
            self._ask(call, identity)
        return None

    def note(self, answer: CallEndReply) -> None:
        key = (answer.run_id, answer.number)
        if key in self._known:
            self._keep(key, answer.end)

    def _keep(self, key: tuple[int, int], known: CallEnd | tuple[float, float]) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _ask(self, call: Await, identity: int) -> None:
        who = self._sender.identity
        name = CallName(run_id=call.run_id, identity=identity, number=call.number, job=call.job)
        question = CallEndQuery(app=who.app, address=who.address, boot_id=who.boot_id, call=name)
        self._sender.send(question, valid_seconds=QUESTION_SECONDS)


class QueryResponder:
    """Answers queries for one boot. Used from the core thread, except `send`."""

    def __init__(
        self,
        context: BootContext,
        *,
        sender: Sender,
        active_runs: ActiveRuns,
        intake: Intake,
        load: LoadMeter,
        readiness: Readiness,
    ) -> None:
        self._run_states = context.run_states
        self._cpu_limit = context.limits.cpu_limit
        self._memory_limit = context.limits.memory_limit
        self._bequest_seconds = context.limits.bequest_seconds
        self._clock = context.clock
        self._log = context.log
        self._sender = sender
        self._active_runs = active_runs
        self._intake = intake
        self._load = load
        self._readiness = readiness
        #: When (monotonic) boots that are not known here were first asked about, oldest first.
        self._strange_boots: OrderedDict[str, float] = OrderedDict()

    def send(self, answer: Message, reply_to: str) -> None:
        """Send an answer to the asker; thread-safe."""
        if REPLY_TO_PATTERN.fullmatch(reply_to) is None:
            self._log.warning("answer_withheld", reply_to=reply_to[:200])
            return
        self._sender.send(answer, key=reply_to, valid_seconds=ANSWER_SECONDS)

    def beat(self, question: Beat) -> None:
        """Answer that this boot is alive."""
        who = self._sender.identity
        answer = BeatAnswer(
            question_id=question.question_id, address=who.address, boot_id=who.boot_id
        )
        self.send(answer, question.reply_to)

    def idle_beat(self, question: IdleBeat) -> None:
        """Answer which of the jobs are busy here, and whether the executor is."""
        who = self._sender.identity
        obstacle = self._readiness.obstacle()
        busy_executor = obstacle or self._busy()
        busy_jobs = {
            job_id: why
            for job_id in question.job_ids
            if (why := self._busy_with(job_id, question.underway.get(job_id, ())))
        }
        reasons = {str(why): why for why in (*busy_jobs.values(), busy_executor) if why}
        answer = IdleBeatAnswer(
            question_id=question.question_id,
            address=who.address,
            boot_id=who.boot_id,
            busy_jobs={job_id: str(why) for job_id, why in busy_jobs.items()},
            busy_executor=str(busy_executor or ""),
            whys=tuple(map(to_json, reasons.values())),
            may_start=obstacle is None,
            free_slots=self._active_runs.free_slots,
            waiting=self._active_runs.waiting_count,
        )
        self.send(answer, question.reply_to)

    def run_states(self, question: RunStateQuery) -> None:
        """Answer with the runs' states, and send the results of finished ones again."""
        who = self._sender.identity
        answer = RunStateReply(
            question_id=question.question_id,
            address=who.address,
            boot_id=who.boot_id,
            remembers_since_ms=self._run_states.remembers_since_ms,
            runs={key.run_id: self._state(key) for key in question.runs},
        )
        for key in question.runs:
            if answer.runs[key.run_id] is KnownState.FINISHED:
                self._intake.report_again(key.run_id, key.boot_id)
        self.send(answer, question.reply_to)

    def _busy_with(self, job_id: int, underway: Collection[int]) -> Reason | None:
        if self._active_runs.has_job(job_id):
            return Why.JOB_IS_HERE()
        if any(self._run_states.stage(run_id) is Stage.UNKNOWN for run_id in underway):
            return Why.RUN_IS_COMING()
        return None

    def _busy(self) -> Reason | None:
        if not self._active_runs.free_slots:
            return Why.NO_FREE_SLOT()
        cpu_percent, memory_percent = self._load.read()
        if cpu_percent > self._cpu_limit:
            return Why.CPU_BUSY(n=f"{cpu_percent:.0f}", most=f"{self._cpu_limit:.0f}")
        if memory_percent > self._memory_limit:
            return Why.MEMORY_BUSY(n=f"{memory_percent:.0f}", most=f"{self._memory_limit:.0f}")
        return None

    def _state(self, key: RunKey) -> KnownState:
        stage = self._run_states.stage(key.run_id)
        if self._run_states.has_another(key.run_id, key.identity):
            return KnownState.NEVER_STARTED
        is_here = self._active_runs.is_running(key.run_id) is not None
        if is_here or key.boot_id == self._sender.identity.boot_id:
            return self._state_here(key.run_id, stage)
        if stage is Stage.FINISHED:
            now_ms = self._clock.now_ms()
            known = self._run_states.report(key.run_id, key.boot_id, now_ms=now_ms)
            never = known is not None and isinstance(known[0], NotStarted)
            return KnownState.NEVER_STARTED if never else KnownState.FINISHED
        if stage is not Stage.UNKNOWN:  # it is being adopted
            return KnownState.WAITING
        if self._run_states.knows_boot(key.boot_id):
            return KnownState.NEVER_STARTED
        return KnownState.WAITING if self._may_be_told(key.boot_id) else KnownState.UNKNOWN

    def _may_be_told(self, boot_id: str) -> bool:
        """Whether the journal of an unknown boot may still arrive and tell the fate of its runs.

        It may have had the address between two times of this boot.
        """
        now = self._clock.monotonic()
        since = self._strange_boots.setdefault(boot_id, now)
        if len(self._strange_boots) > STRANGE_BOOTS:
            self._strange_boots.popitem(last=False)
        return now - since < self._bequest_seconds

    def _state_here(self, run_id: int, stage: Stage) -> KnownState:
        if stage is Stage.FINISHED:
            return KnownState.FINISHED
        is_running = self._active_runs.is_running(run_id)
        if is_running is None:
            return KnownState.UNKNOWN
        return KnownState.RUNNING if is_running else KnownState.WAITING


class CommandHandler:
    """Executes commands and answers questions, on the core thread; worker threads read logs."""

    def __init__(
        self,
        context: BootContext,
        *,
        slots: SlotPool,
        active_runs: ActiveRuns,
        intake: Intake,
        early_kills: EarlyKills,
        contact: Contact,
        answers: QueryResponder,
        awaited: AwaitedCalls,
    ) -> None:
        self._identity = context.identity
        self._loop = context.loop
        self._run_logs = context.run_logs
        self._run_states = context.run_states
        self._log = context.log
        self._slots = slots
        self._active_runs = active_runs
        self._intake = intake
        self._early_kills = early_kills
        self._contact = contact
        self._responder = answers
        self._awaited = awaited

    def handle(self, message: Message) -> None:
        """Execute a command or answer a question; a failure does not affect the others."""
        try:
            self._handle(message)
        except Exception:  # noqa: BLE001 - the top of a command
            self._log.exception("command_failed", type=wire_type(type(message)))

    def _handle(self, message: Message) -> None:
        match message:
            case Kill():
                self._kill(message)
            case OpenRunsReply():
                self._resume(message)
            case CallEndReply():
                self._awaited.note(message)
            case LogPlaces():
                if self._active_runs.log_keeper is not None:
                    self._active_runs.log_keeper.take(message)
            case Beat():
                self._responder.beat(message)
            case IdleBeat():
                self._responder.idle_beat(message)
            case RunStateQuery():
                self._responder.run_states(message)
            case ReadLog():
                self._slots.refresh_log(message.run_id, partial(self._show_log, message))
            case _:
                self._log.debug("command_ignored", type=wire_type(type(message)))

    def _kill(self, kill: Kill) -> None:
        self._log.info("kill_received", run_id=kill.run_id, why=kill.reason)
        if self._run_states.has_another(kill.run_id, kill.identity):
            self._early_kills.put(kill)
        elif self._active_runs.stop(kill.run_id, why_of(kill)):
            self._active_runs.start_ready()
        elif not self._intake.report_again(kill.run_id, self._identity.boot_id):
            self._early_kills.put(kill)

    def _resume(self, answer: OpenRunsReply) -> None:
        answered = self._contact.answer(answer.asked)
        self._active_runs.forget_closed(answered.difference(answer.open_ids))
        self._active_runs.start_ready()

    def _show_log(self, question: ReadLog) -> None:
        # Checked before the log is read: if nothing is late then, what is read is complete.
        late = self._slots.has_late_log(question.run_id)
        growing = self._active_runs.is_running(question.run_id) is True
        if self._run_states.has_another(question.run_id, question.identity):
            question = msgspec.structs.replace(question, scheduled_day="")
        read = partial(self._read_log, question, growing=growing, late=late)
        self._loop.run_in_executor(None, partial(self._answer_log, question, read))

    def _answer_log(self, question: ReadLog, read: Callable[[], LogChunk]) -> None:
        try:
            chunk = read()
            try:
                self._responder.send(chunk, question.reply_to)
            except Malformed:
                plain = msgspec.structs.replace(chunk, text=_CONTROLS.sub("\ufffd", chunk.text))
                self._responder.send(plain, question.reply_to)
        except Exception:  # noqa: BLE001 - the asker sees a timeout, runs are not affected
            self._log.exception("log_read_failed", run_id=question.run_id)

    def _read_log(self, question: ReadLog, *, growing: bool, late: bool) -> LogChunk:
        if question.find:
            return self._search_log(question)
        lines = self._run_logs.read(
            question.run_id,
            question.scheduled_day,
            question.from_line,
            min(question.limit, LINE_LIMIT),
            growing=growing,
            at_end=question.at_end,
        )
        return LogChunk(
            question_id=question.question_id,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            run_id=question.run_id,
            from_line=lines.from_line,
            to_line=lines.to_line,
            text=lines.text,
            is_end=lines.is_end and not late,
            missing=lines.missing and not late,
            times=lines.times,
        )

    def _search_log(self, question: ReadLog) -> LogChunk:
        matches = self._run_logs.search(
            question.run_id, question.scheduled_day, question.find, question.from_line
        )
        return LogChunk(
            question_id=question.question_id,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            run_id=question.run_id,
            from_line=question.from_line,
            to_line=matches.to_line,
            text="",
            is_end=matches.is_end,
            found=matches.lines,
        )
