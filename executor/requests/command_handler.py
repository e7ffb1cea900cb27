"""Handles the commands and questions that schedulers and consoles send to one boot."""

import re
from collections.abc import Callable
from functools import partial

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages.to_executor import (
    Beat,
    CallEnded,
    IdleBeat,
    Kill,
    Know,
    ReadLog,
    StillOpen,
)
from warren.broker.messages.to_scheduler import LogChunk
from warren.broker.messages.values import Message
from warren.broker.reasons.codes import from_json
from warren.executor.boot_context import BootContext
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.lanes.readiness import Contact
from warren.executor.requests.awaited_calls import AwaitedCalls
from warren.executor.requests.intake import EarlyKills, Intake
from warren.executor.requests.query_responder import QueryResponder

#: Most lines in one answer, whatever the question says.
LINE_LIMIT = 10_000

#: Characters that take six bytes in JSON.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class CommandHandler:
    """Executes commands and answers questions, on the core thread; worker threads read logs."""

    def __init__(
        self,
        context: BootContext,
        *,
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
        self._log = context.log
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
            self._log.exception("command_failed", type=type(message).__name__)

    def _handle(self, message: Message) -> None:
        match message:
            case Kill():
                self._kill(message)
            case StillOpen():
                self._resume(message)
            case CallEnded():
                self._awaited.note(message)
            case Beat():
                self._responder.beat(message)
            case IdleBeat():
                self._responder.idle_beat(message)
            case Know():
                self._responder.know(message)
            case ReadLog():
                self._active_runs.refresh_log(message.run_id, partial(self._show_log, message))
            case _:
                self._log.debug("command_ignored", type=type(message).__name__)

    def _kill(self, kill: Kill) -> None:
        why = from_json(kill.why) or kill.reason
        self._log.info("kill_received", run_id=kill.run_id, why=kill.reason)
        if self._active_runs.stop(kill.run_id, why):
            self._active_runs.start_ready()
        elif not self._intake.report_again(kill.run_id, self._identity.boot_id):
            self._early_kills.put(kill.run_id, why)

    def _resume(self, answer: StillOpen) -> None:
        answered = self._contact.answer(answer.asked)
        self._active_runs.forget_closed(answered.difference(answer.open_ids))
        self._active_runs.start_ready()

    def _show_log(self, question: ReadLog) -> None:
        # Seen before the log is read: if nothing is late then, what is read is complete.
        late = self._active_runs.has_late_log(question.run_id)
        growing = self._active_runs.is_running(question.run_id) is True
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
