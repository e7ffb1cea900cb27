"""Answers to what schedulers and consoles ask; each goes back to the asker's own queue."""

import re

import structlog

from broker.messages import (
    ADDRESS_PATTERN,
    Beat,
    BeatAnswer,
    IdleBeat,
    IdleBeatAnswer,
    Know,
    KnowAnswer,
    Knowledge,
    Message,
    NotStarted,
    RunKey,
)
from executor.intake import Intake
from executor.ledger import Ledger, Stage
from executor.load import LoadMeter
from executor.premises import Limits
from executor.readiness import Readiness
from executor.sender import Sender
from executor.workload import Workload

#: Where an answer may be sent to: never to a queue that carries anything but answers.
REPLY_TO_PATTERN = re.compile(rf"answer\.{ADDRESS_PATTERN}")
#: How long an answer is good for.
VALID_SECONDS = 30.0


class Questions:
    """Answers of one boot. Used from the core thread, except `send`."""

    def __init__(
        self,
        *,
        sender: Sender,
        ledger: Ledger,
        workload: Workload,
        intake: Intake,
        load: LoadMeter,
        readiness: Readiness,
        limits: Limits,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._sender = sender
        self._ledger = ledger
        self._workload = workload
        self._intake = intake
        self._load = load
        self._readiness = readiness
        self._cpu_limit = limits.cpu_limit
        self._memory_limit = limits.memory_limit
        self._log = log

    def send(self, answer: Message, reply_to: str) -> None:
        """Send an answer to whoever asked; thread-safe."""
        if REPLY_TO_PATTERN.fullmatch(reply_to) is None:
            self._log.warning("answer_withheld", reply_to=reply_to[:200])
            return
        self._sender.send(answer, key=reply_to, valid_seconds=VALID_SECONDS)

    def beat(self, question: Beat) -> None:
        """Answer: I live."""
        who = self._sender.identity
        answer = BeatAnswer(
            question_id=question.question_id, address=who.address, boot_id=who.boot_id
        )
        self.send(answer, question.reply_to)

    def idle_beat(self, question: IdleBeat) -> None:
        """Answer which of the jobs could not start at once, and whether nothing could."""
        who = self._sender.identity
        answer = IdleBeatAnswer(
            question_id=question.question_id,
            address=who.address,
            boot_id=who.boot_id,
            busy_jobs={
                job_id: "the job runs or waits here"
                for job_id in question.job_ids
                if self._workload.has_job(job_id)
            },
            busy_executor=self._busy(),
            free_slots=self._workload.free_slots,
        )
        self.send(answer, question.reply_to)

    def know(self, question: Know) -> None:
        """Answer what is known of the runs, and call results back once more."""
        who = self._sender.identity
        answer = KnowAnswer(
            question_id=question.question_id,
            address=who.address,
            boot_id=who.boot_id,
            remembers_since_ms=self._ledger.remembers_since_ms,
            runs={key.run_id: self._knowledge(key) for key in question.runs},
        )
        for key in question.runs:
            if answer.runs[key.run_id] is Knowledge.FINISHED:
                self._intake.report_again(key.run_id, key.boot_id)
        self.send(answer, question.reply_to)

    def _busy(self) -> str:
        obstacle = self._readiness.obstacle()
        if obstacle:
            return obstacle
        if not self._workload.free_slots:
            return "every slot is taken"
        cpu_percent, memory_percent = self._load.read()
        if cpu_percent > self._cpu_limit:
            return f"CPU at {cpu_percent:.0f} %, limit {self._cpu_limit:.0f} %"
        if memory_percent > self._memory_limit:
            return f"memory at {memory_percent:.0f} %, limit {self._memory_limit:.0f} %"
        return ""

    def _knowledge(self, key: RunKey) -> Knowledge:
        stage = self._ledger.stage(key.run_id)
        if key.boot_id == self._sender.identity.boot_id:
            return self._knowledge_now(key.run_id, stage)
        if stage is Stage.FINISHED:
            known = self._ledger.report(key.run_id, key.boot_id)
            never = known is not None and isinstance(known[0], NotStarted)
            return Knowledge.NEVER_STARTED if never else Knowledge.FINISHED
        if stage is Stage.UNKNOWN and self._ledger.knows_boot(key.boot_id):
            return Knowledge.NEVER_STARTED
        return Knowledge.UNKNOWN

    def _knowledge_now(self, run_id: int, stage: Stage) -> Knowledge:
        if stage is Stage.FINISHED:
            return Knowledge.FINISHED
        is_running = self._workload.is_running(run_id)
        if is_running is None:
            return Knowledge.UNKNOWN
        return Knowledge.RUNNING if is_running else Knowledge.WAITING
