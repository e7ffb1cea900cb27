"""What a user says about a job: one value for job file, command line and console."""

from dataclasses import dataclass

from scheduler.alarms.policy import NOBODY, AlarmTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """An app as somebody wants it; `title` None = leave it as it is.

    `addresses` are the executors to route to, in this order; none = all that register.
    `alarm` is told of failures of its jobs that name nobody, and that it has no executor.
    """

    name: str
    title: str | None = None
    addresses: tuple[str, ...] = ()
    alarm: AlarmTargets = NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its author wants it; `enabled` None = leave the state as it is, stopped when new.

    `schedule_kind` is NONE, CRON, FIX_RATE, FIX_DELAY or AT; `schedule_conf` the expression, the
    seconds, or the ISO 8601 instant. `timezone` "" = the scheduler's. Durations are whole seconds.
    `children` are NAME of a job in the same app, or APP/NAME.
    A job with a `script_language` (a ScriptLanguage) has a script and no `handler`.
    """

    name: str
    app: str
    author: str = ""
    schedule_kind: str = "NONE"
    schedule_conf: str = ""
    timezone: str = ""
    handler: str = ""
    script_language: str = ""
    script_source: str = ""
    script_remark: str = ""
    param: str = ""
    route: str = "FIRST"
    block: str = "SERIAL_EXECUTION"
    misfire: str = "DO_NOTHING"
    delivery: str = "AT_MOST_ONCE"
    concurrency: int = 1
    timeout: int = 0
    retries: int = 0
    retry_delay: int = 0
    fresh_process: bool = False
    children: tuple[str, ...] = ()
    alarm: AlarmTargets = NOBODY
    enabled: bool | None = None
