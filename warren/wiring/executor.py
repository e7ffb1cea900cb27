"""Makes an executor and its parts from the settings, without libraries of `warren[server]`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from warren.broker.log_folder import shared_folder
from warren.broker.process_use import ProcessUse
from warren.broker.signing import AppKeys
from warren.broker.transport import Transport
from warren.errors import SettingsError
from warren.executor.agent import Executor, SchedulerLink
from warren.executor.boot_context import Limits
from warren.executor.container import Host
from warren.executor.disk import Reserve
from warren.executor.errors import UserUnusable
from warren.executor.fork_server.confinement import Confinement, JobLimits, JobUser
from warren.executor.handlers.hooks import JobCode
from warren.executor.log_uploads.waiting_logs import waiting_runs
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotOptions, SlotsFactory
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import StateFolder
from warren.scheduler.rounds import Loop, Role
from warren.settings.settings import Settings
from warren.wiring.processes import Signals

#: Seconds between two searches for old run logs.
CLEANING_SECONDS = 3_600.0
#: The most job processes that are forked in advance.
MAX_SPARES = 16


def make_run_logs(settings: Settings) -> RunLogs:
    """Return the run logs in the configured folder, which leave the reserve of its disk free."""
    return RunLogs(settings.log_dir, reserve=Reserve.parse(settings.log_reserve))


def shared_log_folder(settings: Settings) -> Path | None:
    """Return the shared folder of the log store; None if there is none, or it is not a folder."""
    return shared_folder(settings.log_store) if settings.log_store else None


def make_confinement(settings: Settings) -> Confinement:
    """Return the user and limits for jobs; raise SettingsError if the user is unusable."""
    try:
        user = JobUser.find(settings.job_user) if settings.job_user else None
    except UserUnusable as error:
        raise SettingsError([f"WARREN_JOB_USER: {error}"]) from error
    return Confinement(user=user, limits=JobLimits.parse(settings.job_limits or ""))


def count_spares(settings: Settings, limits: JobLimits, most_processes: int | None) -> int:
    """Return how many job processes to fork in advance.

    Raises:
        SettingsError: the host, the control group or the jobs' limits allow no such number.

    """
    by_limit = {
        "pids.max of the control group, or ulimit -u,": most_processes,
        "processes in WARREN_JOB_LIMITS": limits.processes or None,
    }
    allowed = [(limit, name) for name, limit in by_limit.items() if limit is not None]
    # The zygote is a process, too.
    room = max(0, min(allowed)[0] - settings.slots - 1) if allowed else MAX_SPARES
    wanted = settings.spare_processes
    if wanted is None:
        return min(settings.slots, MAX_SPARES, room)
    if wanted > room:
        numbers = f"{wanted} beside {settings.slots} slots"
        most, name = min(allowed)
        limit = f"{name} allows: {most} processes, one of which forks the others"
        raise SettingsError([f"WARREN_SPARE_PROCESSES: {numbers} are more than {limit}"])
    return wanted


def make_slots(
    settings: Settings,
    sources: Sequence[str],
    run_logs: RunLogs,
    *,
    signals: Signals,
    is_reloaded: bool = False,
) -> SlotsFactory:
    """Return the factory of an executor's slots, which run job processes.

    A signal ends the first import of the handlers. `is_reloaded`: they may be imported again.
    """
    code = JobCode(
        sources=tuple(sources),
        hooks=tuple(settings.hooks.split(",")) if settings.hooks else (),
        log_level=settings.job_log_level,
        builtin=tuple(settings.builtin.split(",")) if settings.builtin else (),
        http_hosts=settings.http_hosts or "",
        secrets_file=str(settings.job_secrets.absolute()) if settings.job_secrets else "",
        is_reloaded=is_reloaded,
    )
    confinement = make_confinement(settings)
    options = SlotOptions(
        count=settings.slots,
        idle_count=settings.idle_processes,
        spare_count=count_spares(settings, confinement.limits, Host().most_processes()),
        process=ProcessUse(settings.process),
        grace_seconds=settings.grace_seconds,
        script_languages=settings.script_languages,
        code_version=settings.code_version or "",
        confinement=confinement,
        is_unwanted=lambda: signals.count > 0,
    )
    return partial(Slots, code, run_logs, options)


def make_executor(
    settings: Settings,
    *,
    app: str,
    address: str,
    transport: Transport,
    keys: AppKeys,
    slots: SlotsFactory,
    folder: StateFolder | None = None,
) -> Executor:
    """Return an executor that is not started yet; `folder` is its locked state folder, if any."""
    return Executor(
        Identity.checked(app, address),
        SchedulerLink(transport, keys),
        make_slots=slots,
        run_logs=make_run_logs(settings),
        state=folder or settings.state_dir,
        limits=Limits(
            slots=settings.slots,
            grace_seconds=settings.grace_seconds,
            drain_seconds=settings.drain_seconds,
            cpu_limit=settings.cpu_limit,
            memory_limit=settings.memory_limit,
            log_spool_bytes=Reserve.parse(settings.log_spool).size,
        ),
        log_folder=shared_log_folder(settings),
        prints_logs=settings.log_stdout == "json",
    )


def make_log_cleaner(settings: Settings) -> Loop:
    """Return the role that deletes old run logs; it is not started yet."""
    logs = RunLogs(settings.log_dir)

    def run_round() -> float:
        logs.clean(settings.log_retention_days, spared=waiting_runs(settings.state_dir))
        return CLEANING_SECONDS

    return Loop(Role("log cleaner", run_round, longest_seconds=CLEANING_SECONDS))
