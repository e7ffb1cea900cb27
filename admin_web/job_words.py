"""What a job's choices are called on pages, and when to take which."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask_babel import LazyString, gettext, lazy_gettext

from admin_web.language import language
from admin_web.words import State
from broker.messages import Block, ScriptLanguage
from scheduler.cron_words import cron_words
from scheduler.route_choice import Route
from scheduler.schedule import ScheduleKind
from scheduler.scripts import language_of
from sql.rows import AnyRow


@dataclass(frozen=True, slots=True)
class Advice:
    """What one choice is called, and when to take it."""

    name: LazyString
    when: LazyString


SCHEDULE = {
    ScheduleKind.CRON: Advice(
        lazy_gettext("cron expression"),
        lazy_gettext("At times of the calendar: each night at two, on the last Friday."),
    ),
    ScheduleKind.FIX_RATE: Advice(
        lazy_gettext("fixed rate"),
        lazy_gettext("Every so many seconds, however long a run takes."),
    ),
    ScheduleKind.FIX_DELAY: Advice(
        lazy_gettext("fixed delay"),
        lazy_gettext("So many seconds after the end of the run before."),
    ),
    ScheduleKind.AT: Advice(lazy_gettext("once"), lazy_gettext("A single time.")),
    ScheduleKind.NONE: Advice(
        lazy_gettext("none"),
        lazy_gettext("By hand, by the API, or as the child of another job."),
    ),
}
ROUTE = {
    Route.FIRST: Advice(
        lazy_gettext("first"),
        lazy_gettext("Always the first executor. Take it when one is enough and the others wait."),
    ),
    Route.LAST: Advice(
        lazy_gettext("last"),
        lazy_gettext(
            "Always the last executor; keeps a job apart from those that go to the first."
        ),
    ),
    Route.ROUND: Advice(
        lazy_gettext("round robin"),
        lazy_gettext("One after the other. Take it for runs of about the same weight."),
    ),
    Route.RANDOM: Advice(
        lazy_gettext("random"),
        lazy_gettext("Any of them. Take it for very many short runs."),
    ),
    Route.CONSISTENT_HASH: Advice(
        lazy_gettext("consistent hash"),
        lazy_gettext(
            "The same executor for the same job for as long as it lives. "
            "Take it for jobs with a local cache."
        ),
    ),
    Route.LEAST_FREQUENTLY_USED: Advice(
        lazy_gettext("least frequently used"),
        lazy_gettext("Whoever had this job least often; evens out after executors come and go."),
    ),
    Route.LEAST_RECENTLY_USED: Advice(
        lazy_gettext("least recently used"),
        lazy_gettext("Whoever had this job longest ago, so that nobody has it twice in a row."),
    ),
    Route.FAILOVER: Advice(
        lazy_gettext("failover"),
        lazy_gettext(
            "The first that answers a call. Take it when a run must not land on a frozen executor."
        ),
    ),
    Route.BUSYOVER: Advice(
        lazy_gettext("busyover"),
        lazy_gettext("The first with a free slot and without this job. Take it for long runs."),
    ),
    Route.SHARDING_BROADCAST: Advice(
        lazy_gettext("sharding broadcast"),
        lazy_gettext("All of them at once, each with its share of the work."),
    ),
}
BLOCK = {
    Block.SERIAL_EXECUTION: Advice(
        lazy_gettext("one after the other"),
        lazy_gettext("A run waits for the one before. Take it when each run matters."),
    ),
    Block.DISCARD_LATER: Advice(
        lazy_gettext("refuse the later"),
        lazy_gettext("While one runs, the next is refused. Take it when a late run is worthless."),
    ),
    Block.COVER_EARLY: Advice(
        lazy_gettext("replace the earlier"),
        lazy_gettext("A new run ends the old one. Take it when only the newest result counts."),
    ),
}
MISFIRE = {
    "DO_NOTHING": Advice(
        lazy_gettext("skip"),
        lazy_gettext("Missed times are recorded and left out. The next one comes as usual."),
    ),
    "FIRE_ONCE_NOW": Advice(
        lazy_gettext("run once now"),
        lazy_gettext("One run makes up for all that was missed. Take it for daily reports."),
    ),
}
DELIVERY = {
    "AT_MOST_ONCE": Advice(
        lazy_gettext("at most once"),
        lazy_gettext("A run that may have started is never started again by itself."),
    ),
    "AT_LEAST_ONCE": Advice(
        lazy_gettext("at least once"),
        lazy_gettext("A run whose executor died is tried again. It must bear a second time."),
    ),
}
#: Languages of scripts; names need no translation.
LANGUAGES = {
    ScriptLanguage.SHELL: "Shell",
    ScriptLanguage.PYTHON: "Python",
    ScriptLanguage.NODEJS: "Node.js",
    ScriptLanguage.PHP: "PHP",
    ScriptLanguage.POWERSHELL: "PowerShell",
    ScriptLanguage.GROOVY: "Groovy",
}
_ENABLED = State(lazy_gettext("enabled"), "good", "play")
_STOPPED = State(lazy_gettext("stopped"), "quiet", "pause")
_STOPPED_BY_ITSELF = State(lazy_gettext("stopped by itself"), "warn", "triangle")
_BY_REQUEST = State(lazy_gettext("by request"), "quiet", "ring")


def state(job: AnyRow) -> State:
    """Return how a job stands."""
    if job.trigger_status:
        return _ENABLED
    if job.stop_reason:
        return _STOPPED_BY_ITSELF
    return _BY_REQUEST if job.schedule_type == ScheduleKind.NONE else _STOPPED


def script_name(glue_type: str) -> str:
    """Return the language of a job's script, empty for a job without one."""
    known = language_of(glue_type)
    return LANGUAGES[ScriptLanguage(known)] if known else ""


def name_of(advice: Mapping[Any, Advice], value: str) -> str:
    """Return what a choice is called; one that was added is called as it is."""
    return str(advice[value].name) if value in advice else value


def schedule_words(kind: str, conf: str) -> str:
    """Return when a schedule fires, in words; what cannot be read as it is written."""
    if kind == ScheduleKind.CRON:
        try:
            return cron_words(conf, language())
        except ValueError:
            return conf
    said = {
        ScheduleKind.FIX_RATE: gettext("Every %(n)s s", n=conf),
        ScheduleKind.FIX_DELAY: gettext("%(n)s s after the end of each run", n=conf),
        ScheduleKind.AT: gettext("Once, at %(at)s", at=conf),
    }
    return str(said.get(ScheduleKind(kind), gettext("No schedule"))) if kind in SCHEDULE else kind
