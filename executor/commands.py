"""What schedulers and consoles order or ask of one boot."""

import asyncio
import re
from functools import partial

import msgspec
import structlog

from broker.errors import Malformed
from broker.messages import (
    Beat,
    IdleBeat,
    Kill,
    Know,
    LogChunk,
    Message,
    ReadLog,
    StillOpen,
)
from executor.contact import Contact
from executor.intake import Intake, Tombstones
from executor.questions import Questions
from executor.runlog import RunLogs
from executor.sender import Identity
from executor.workload import Workload

#: Most lines in one answer, whatever is asked for.
LINE_LIMIT = 10_000

#: What JSON blows up sixfold.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Commands:
    """Obeys and answers. Used from the core thread; logs are read in worker threads."""

    def __init__(
        self,
        *,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        workload: Workload,
        intake: Intake,
        tombstones: Tombstones,
        contact: Contact,
        questions: Questions,
        run_logs: RunLogs,
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._identity = identity
        self._loop = loop
        self._workload = workload
        self._intake = intake
        self._tombstones = tombstones
        self._contact = contact
        self._questions = questions
        self._run_logs = run_logs
        self._log = log

    def obey(self, message: Message) -> None:
        """Do or answer what a message says; one that cannot be done disturbs no other."""
        try:
            self._obey(message)
        except Exception:  # noqa: BLE001 - the top of a command
            self._log.exception("command_failed", type=type(message).__name__)

    def _obey(self, message: Message) -> None:
        match message:
            case Kill():
                self._kill(message)
            case StillOpen():
                self._resume(message)
            case Beat():
                self._questions.beat(message)
            case IdleBeat():
                self._questions.idle_beat(message)
            case Know():
                self._questions.know(message)
            case ReadLog():
                growing = self._workload.is_running(message.run_id) is True
                self._loop.run_in_executor(None, partial(self._answer_log, message, growing))
            case _:
                self._log.debug("command_ignored", type=type(message).__name__)

    def _kill(self, kill: Kill) -> None:
        self._log.info("kill_received", run_id=kill.run_id, why=kill.reason)
        if self._workload.stop(kill.run_id, kill.reason):
            self._workload.pump()
        elif not self._intake.report_again(kill.run_id, self._identity.boot_id):
            self._tombstones.put(kill.run_id, kill.reason)

    def _resume(self, answer: StillOpen) -> None:
        answered = self._contact.answer(answer.asked)
        self._workload.forget_closed(answered.difference(answer.open_ids))
        self._workload.pump()

    def _answer_log(self, question: ReadLog, growing: bool) -> None:
        try:
            chunk = self._read_log(question, growing=growing)
            try:
                self._questions.send(chunk, question.reply_to)
            except Malformed:
                plain = msgspec.structs.replace(chunk, text=_CONTROLS.sub("\ufffd", chunk.text))
                self._questions.send(plain, question.reply_to)
        except Exception:  # noqa: BLE001 - the asker sees a time-out, the runs are not disturbed
            self._log.exception("log_read_failed", run_id=question.run_id)

    def _read_log(self, question: ReadLog, *, growing: bool) -> LogChunk:
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
            is_end=lines.is_end,
            missing=lines.missing,
        )
