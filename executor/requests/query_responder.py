"""Answers queries of schedulers and consoles; each answer goes to the asker's own queue."""

import re
from collections.abc import Collection

from warren.broker.messages.to_executor import Beat, IdleBeat, Know, RunKey
from warren.broker.messages.to_scheduler import (
    BeatAnswer,
    IdleBeatAnswer,
    KnowAnswer,
    Knowledge,
    NotStarted,
)
from warren.broker.messages.values import ADDRESS_PATTERN, Message
from warren.broker.reasons.codes import Reason, Why, to_json
from warren.executor.boot_context import BootContext
from warren.executor.journal.run_states import Stage
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.lanes.readiness import Readiness
from warren.executor.messaging.heartbeat import LoadMeter
from warren.executor.messaging.signed_sender import Sender
from warren.executor.requests.intake import Intake

#: The queues that answers may be sent to: only those that carry nothing but answers.
REPLY_TO_PATTERN = re.compile(rf"answer\.{ADDRESS_PATTERN}")
#: How long an answer is valid.
VALID_SECONDS = 30.0


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
        self._clock = context.clock
        self._log = context.log
        self._sender = sender
        self._active_runs = active_runs
        self._intake = intake
        self._load = load
        self._readiness = readiness

    def send(self, answer: Message, reply_to: str) -> None:
        """Send an answer to the asker; thread-safe."""
        if REPLY_TO_PATTERN.fullmatch(reply_to) is None:
            self._log.warning("answer_withheld", reply_to=reply_to[:200])
            return
        self._sender.send(answer, key=reply_to, valid_seconds=VALID_SECONDS)

    def beat(self, question: Beat) -> None:
        """Answer that this boot is alive."""
        who = self._sender.identity
        answer = BeatAnswer(
            question_id=question.question_id, address=who.address, boot_id=who.boot_id
        )
        self.send(answer, question.reply_to)

    def idle_beat(self, question: IdleBeat) -> None:
        """Answer which of the jobs are busy here, and whether the whole executor is."""
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

    def know(self, question: Know) -> None:
        """Answer what is known about the runs, and send the results of finished ones again."""
        who = self._sender.identity
        answer = KnowAnswer(
            question_id=question.question_id,
            address=who.address,
            boot_id=who.boot_id,
            remembers_since_ms=self._run_states.remembers_since_ms,
            runs={key.run_id: self._knowledge(key) for key in question.runs},
        )
        for key in question.runs:
            if answer.runs[key.run_id] is Knowledge.FINISHED:
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

    def _knowledge(self, key: RunKey) -> Knowledge:
        stage = self._run_states.stage(key.run_id)
        if self._run_states.has_another(key.run_id, key.identity):
            return Knowledge.NEVER_STARTED
        if key.boot_id == self._sender.identity.boot_id:
            return self._knowledge_now(key.run_id, stage)
        if stage is Stage.FINISHED:
            now_ms = self._clock.now_ms()
            known = self._run_states.report(key.run_id, key.boot_id, now_ms=now_ms)
            never = known is not None and isinstance(known[0], NotStarted)
            return Knowledge.NEVER_STARTED if never else Knowledge.FINISHED
        if stage is Stage.UNKNOWN and self._run_states.knows_boot(key.boot_id):
            return Knowledge.NEVER_STARTED
        return Knowledge.UNKNOWN

    def _knowledge_now(self, run_id: int, stage: Stage) -> Knowledge:
        if stage is Stage.FINISHED:
            return Knowledge.FINISHED
        is_running = self._active_runs.is_running(run_id)
        if is_running is None:
            return Knowledge.UNKNOWN
        return Knowledge.RUNNING if is_running else Knowledge.WAITING
