"""Labels of a job's options, and when to use each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask_babel import LazyString, gettext, lazy_gettext

from warren.admin_web.language.catalogues import language
from warren.admin_web.language.labels import MISFIRE_POLICY, ROUTE_NAMES, State
from warren.broker.messages import Block, ScriptLanguage
from warren.broker.process_use import ProcessUse
from warren.scheduler.alarms.events import FAILURE, SUCCESS
from warren.scheduler.jobs.places import module_of
from warren.scheduler.jobs.script_cache import language_of
from warren.scheduler.routing.routes import Route
from warren.scheduler.schedules.misfire import MisfirePolicy
from warren.scheduler.schedules.options import OnHoliday
from warren.scheduler.schedules.registry import KINDS, CronSchedule, has_schedule
from warren.sql.listings.job_search import ListedJob
from warren.sql.models.job_tables import Backoff, DeliveryGuarantee, Priority, Scope


@dataclass(frozen=True, slots=True)
class Option:
    """The name of a choice, and when to use it."""

    name: LazyString
    when: LazyString


def with_cancelled(words: str, cancelled: int) -> str:
    """Describe what was done to jobs, with the number of planned runs that it cancelled."""
    if not cancelled:
        return words
    return str(gettext("%(words)s; planned runs cancelled: %(n)s", words=words, n=cancelled))


def choices(options: Mapping[Any, Option]) -> list[tuple[str, LazyString]]:
    """Return the choices of a field with these options: pairs of value and name."""
    return [(str(value), option.name) for value, option in options.items()]


PROCESS = {
    "": Option(
        lazy_gettext("default"),
        lazy_gettext("As the handler says, else WARREN_PROCESS of the executor."),
    ),
    ProcessUse.JOB: Option(
        lazy_gettext("kept for this job"),
        lazy_gettext(
            "Runs of this job reuse a process, one after another. Other jobs never share it."
        ),
    ),
    ProcessUse.HANDLER: Option(
        lazy_gettext("shared by the handler's jobs"),
        lazy_gettext(
            "For thousands of small jobs. Each finds what the others left in the handler's modules."
        ),
    ),
    ProcessUse.FRESH: Option(
        lazy_gettext("new for each run"),
        lazy_gettext("A few milliseconds slower. Nothing is left over from earlier runs."),
    ),
}
#: After which runs a webhook is called.
CALL_WHEN = {
    "": lazy_gettext("after every run"),
    SUCCESS: lazy_gettext("after each success"),
    FAILURE: lazy_gettext("after each failure"),
}
#: Kinds that fire automatically come first.
SCHEDULE = {
    kind.kind: Option(lazy_gettext(kind.title), lazy_gettext(kind.advice))
    for kind in sorted(KINDS.values(), key=lambda kind: not kind.fires)
}
#: What becomes of a due time on a day off.
ON_HOLIDAY = {
    "": lazy_gettext("leave it out (default)"),
    OnHoliday.NEXT: lazy_gettext("move to the next working day"),
    OnHoliday.PREVIOUS: lazy_gettext("move to the working day before"),
}
#: What becomes of a time that a clock change leaves out.
GAPS = {
    "": lazy_gettext("as usual for this kind of schedule"),
    "skip": lazy_gettext("leave it out"),
    "run_after": lazy_gettext("run right after the change"),
}
ROUTE: Mapping[Any, Option] = {
    "": Option(
        lazy_gettext("default"),
        lazy_gettext("The app's route; if it has none, consistent hash."),
    ),
    Route.FIRST: Option(
        ROUTE_NAMES[Route.FIRST],
        lazy_gettext(
            "Always the first executor. Use it when one is enough and the others are on standby."
        ),
    ),
    Route.LAST: Option(
        ROUTE_NAMES[Route.LAST],
        lazy_gettext("Always the last executor. Keeps a job away from those that use the first."),
    ),
    Route.ROUND: Option(
        ROUTE_NAMES[Route.ROUND],
        lazy_gettext("Executors take turns. For runs of similar cost."),
    ),
    Route.RANDOM: Option(
        ROUTE_NAMES[Route.RANDOM],
        lazy_gettext("Any executor. For many short runs."),
    ),
    Route.CONSISTENT_HASH: Option(
        ROUTE_NAMES[Route.CONSISTENT_HASH],
        lazy_gettext(
            "The same executor for the same job as long as it is online. For jobs with a local "
            "cache."
        ),
    ),
    Route.LEAST_FREQUENTLY_USED: Option(
        ROUTE_NAMES[Route.LEAST_FREQUENTLY_USED],
        lazy_gettext(
            "The executor that ran this job least often. Evens out when executors come and go."
        ),
    ),
    Route.LEAST_RECENTLY_USED: Option(
        ROUTE_NAMES[Route.LEAST_RECENTLY_USED],
        lazy_gettext(
            "The executor that ran this job longest ago, so that none runs it twice in a row."
        ),
    ),
    Route.LEAST_LOADED: Option(
        ROUTE_NAMES[Route.LEAST_LOADED],
        lazy_gettext("The executor with the most free slots. For runs that may overlap."),
    ),
    Route.FAILOVER: Option(
        ROUTE_NAMES[Route.FAILOVER],
        lazy_gettext(
            "The first executor that passes a health check. "
            "Use it when a run must not go to a frozen executor."
        ),
    ),
    Route.BUSYOVER: Option(
        ROUTE_NAMES[Route.BUSYOVER],
        lazy_gettext(
            "The first idle executor, or one that is not running this job. For long runs."
        ),
    ),
    Route.SHARDING_BROADCAST: Option(
        ROUTE_NAMES[Route.SHARDING_BROADCAST],
        lazy_gettext("All executors at once, each with its own shard."),
    ),
}
BLOCK = {
    Block.SERIAL_EXECUTION: Option(
        lazy_gettext("queue"),
        lazy_gettext("A new run waits for the previous one. Use it when every run matters."),
    ),
    Block.DISCARD_LATER: Option(
        lazy_gettext("skip new"),
        lazy_gettext(
            "A new run is skipped while one is running. Use it when a late run is useless."
        ),
    ),
    Block.COVER_EARLY: Option(
        lazy_gettext("replace running"),
        lazy_gettext("A new run kills the running one. Use it when only the latest result counts."),
    ),
}
MISFIRE = {
    MisfirePolicy.DO_NOTHING: Option(
        MISFIRE_POLICY[MisfirePolicy.DO_NOTHING],
        lazy_gettext("Missed runs are recorded and skipped. The next one runs as usual."),
    ),
    MisfirePolicy.FIRE_ONCE_NOW: Option(
        MISFIRE_POLICY[MisfirePolicy.FIRE_ONCE_NOW],
        lazy_gettext("One run makes up for all missed runs. Good for daily reports."),
    ),
    MisfirePolicy.CATCH_UP: Option(
        MISFIRE_POLICY[MisfirePolicy.CATCH_UP],
        lazy_gettext("A backfill runs the newest of the missed runs, one after another."),
    ),
}
DELIVERY = {
    DeliveryGuarantee.AT_MOST_ONCE: Option(
        lazy_gettext("at most once"),
        lazy_gettext("A run that may have started is never run again automatically."),
    ),
    DeliveryGuarantee.AT_LEAST_ONCE: Option(
        lazy_gettext("at least once"),
        lazy_gettext(
            "A run whose executor was lost is retried. The job must be safe to run twice."
        ),
    ),
}
BACKOFF = {
    Backoff.FIXED: Option(
        lazy_gettext("fixed"),
        lazy_gettext("The same delay before each retry."),
    ),
    Backoff.EXPONENTIAL: Option(
        lazy_gettext("exponential"),
        lazy_gettext(
            "Each delay is twice the one before. For services that take a while to recover."
        ),
    ),
}
SCOPE = {
    Scope.EXECUTOR: Option(
        lazy_gettext("on each executor"),
        lazy_gettext("Runs on different executors do not wait for each other."),
    ),
    Scope.CLUSTER: Option(
        lazy_gettext("in the whole cluster"),
        lazy_gettext("Runs wait for each other, wherever they run."),
    ),
}
PRIORITY = {
    Priority.HIGH: Option(
        lazy_gettext("high"),
        lazy_gettext("Goes first when more runs are due than can be sent or started."),
    ),
    Priority.NORMAL: Option(
        lazy_gettext("normal"),
        lazy_gettext("Goes in the order of due times."),
    ),
    Priority.LOW: Option(
        lazy_gettext("low"),
        lazy_gettext("Goes last, but gets at least one run in every 20."),
    ),
}
#: The options of each field that has a fixed set.
OPTIONS: Mapping[str, Mapping[Any, Option]] = {
    "schedule_kind": SCHEDULE,
    "route": ROUTE,
    "block": BLOCK,
    "misfire": MISFIRE,
    "delivery": DELIVERY,
    "process": PROCESS,
    "retry_backoff": BACKOFF,
    "scope": SCOPE,
    "priority": PRIORITY,
}
#: Script languages; their names are not translated.
LANGUAGES = {
    ScriptLanguage.SHELL: "Shell",
    ScriptLanguage.PYTHON: "Python",
    ScriptLanguage.NODEJS: "Node.js",
    ScriptLanguage.PHP: "PHP",
    ScriptLanguage.POWERSHELL: "PowerShell",
    ScriptLanguage.GROOVY: "Groovy",
}
#: The type of a job that is a flow.
FLOW = lazy_gettext("Flow (runs other jobs)")
_ENABLED = State(lazy_gettext("enabled"), "good", "play")
_STOPPED = State(lazy_gettext("stopped"), "quiet", "pause")
_STOPPED_BY_ITSELF = State(lazy_gettext("stopped automatically"), "warn", "triangle")
_BY_REQUEST = State(lazy_gettext("on demand"), "quiet", "ring")


def state(job: ListedJob) -> State:
    if job.is_enabled:
        return _ENABLED
    if job.stop_reason:
        return _STOPPED_BY_ITSELF
    return _STOPPED if has_schedule(job.schedule_kind) else _BY_REQUEST


def script_name(script_type: str) -> str:
    """Return the language of a job's script; empty if it has none."""
    known = language_of(script_type)
    return LANGUAGES[ScriptLanguage(known)] if known else ""


def place(declared_in: str | None) -> str:
    """Return where a job is declared; empty if nowhere but here."""
    if module := module_of(declared_in):
        return str(gettext("the code of %(module)s", module=module))
    return str(gettext("a job file")) if declared_in else ""


def label_of(options: Mapping[Any, Option], value: str) -> str:
    """Return the label of a choice; unknown ones, such as added routes, are their own label."""
    return str(options[value].name) if value in options else value


def schedule_expression(kind: str, value: str | None) -> str:
    """Return a cron expression, which words may not cover; empty for other kinds of schedules."""
    return value or "" if kind == CronSchedule.kind else ""


def schedule_words(kind: str, value: str | None) -> str:
    """Return a schedule in words; the kind itself if it is unknown."""
    return KINDS[kind].in_words(value or "", gettext, language()) if kind in KINDS else kind


#: The handlers for jobs without code, in the order in which they are offered.
WITHOUT_CODE = {
    "warren.http": lazy_gettext("Send an HTTP request, without code"),
    "warren.command": lazy_gettext("Run a program, without code"),
}
