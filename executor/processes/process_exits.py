"""Tells how job processes ended, for the ends of their runs and for the log."""

import signal

import structlog

from warren.broker.reasons.codes import Why
from warren.broker.reasons.stored import from_json
from warren.executor.fork_server import frames, linux
from warren.executor.processes.endings import Exit
from warren.executor.processes.job_process import JobProcess


class ProcessExits:
    """How the job processes of one executor ended."""

    def __init__(self) -> None:
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
