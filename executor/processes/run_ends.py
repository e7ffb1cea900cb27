"""Works out how job processes and their runs ended, for reports and for the log."""

import signal
import time

import structlog

from warren.broker.messages.to_scheduler import Finished
from warren.broker.messages.values import Outcome
from warren.broker.reasons.codes import Why, from_json, to_json
from warren.executor.fork_server import frames, linux
from warren.executor.handlers.outcomes import cut
from warren.executor.processes.endings import Exit, conclude
from warren.executor.processes.job_process import JobProcess, SlotRun
from warren.executor.processes.script_files import Scripts
from warren.executor.run_logs import FinishedLog, LogLimiter


class RunEnds:
    """How the runs and job processes of one executor ended."""

    def __init__(self, log_limiter: LogLimiter, scripts: Scripts) -> None:
        self._log_limiter = log_limiter
        self._scripts = scripts
        self._log = structlog.get_logger()
        self._oom = linux.OomWatch()

    def exited(self, process: JobProcess, exited: frames.Exited) -> Exit:
        """Return how a process ended whose exit the zygote has reported."""
        if process.is_forced:
            self._log.warning("process_killed", pid=process.pid, handler=process.what)
        if exited.survivors:
            self._log.error("processes_survived", processes=exited.survivors)
        was_killed = exited.code == -signal.SIGKILL and not process.is_forced
        return Exit(
            code=exited.code,
            forced=process.is_forced,
            oom=was_killed and self._oom.has_killed(),
            survivors=exited.survivors,
            left=exited.left,
            left_count=exited.left_count,
            failure=from_json(exited.why) or exited.error or None,
        )

    def stuck(self, process: JobProcess) -> Exit:
        """Return the end of a process that is given up because SIGKILL does not end it."""
        name = f"{process.what} (pid {process.pid})"
        self._log.error("processes_survived", processes=name)
        return Exit(forced=process.is_forced, survivors=name)

    def lost_zygote(self, process: JobProcess, survivors: str) -> Exit:
        """Return the end of a process whose zygote has died."""
        return Exit(forced=process.is_forced, survivors=survivors, failure=Why.ZYGOTE_DIED())

    def conclude(self, run: SlotRun) -> Finished:
        """Return the end of a run that has left its slot; delete its script's file."""
        if run.command:
            self._scripts.discard(run.command)
        log = self._finished_log(run)
        outcome, message = conclude(
            stop=run.stop,
            result=run.result,
            exit_=run.exit,
            grace_seconds=run.grace_seconds,
            is_script=bool(run.command),
            log_error=log.error,
        )
        failure = run.result if run.stop is None and outcome is Outcome.FAILED else None
        return Finished(
            run_id=run.trigger.run_id,
            boot_id=run.trigger.boot_id,
            outcome=outcome,
            message=cut(str(message)),
            why=to_json(message),
            started_at_ms=run.started_at_ms,
            finished_at_ms=int(time.time() * 1000),
            log_tail=log.tail,
            result=_result(run, outcome),
            may_retry=failure is None or failure.may_retry,
            retry_seconds=None if failure is None else failure.retry_seconds,
        )

    def _finished_log(self, run: SlotRun) -> FinishedLog:
        result = run.result
        if run.exit is not None or result is None:
            return self._log_limiter.close(run.log_path)
        if self._log_limiter.needs_cut(run.log_path, result.log_bytes):
            return self._log_limiter.close(run.log_path)
        return self._log_limiter.check(run.log_path, result.log_tail)


def _result(run: SlotRun, outcome: Outcome) -> str:
    """Return what the handler of a run returned; a run that did not succeed has no result."""
    return run.result.returned if run.result and outcome is Outcome.SUCCEEDED else ""
