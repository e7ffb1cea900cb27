"""Every reason that executors and schedulers give: a sentence with placeholders for facts.

`str` of a reason is the English sentence. To show it in another language, translate the sentence
and fill in the same facts. A new reason needs a line here, code that gives it, and a translation in
the catalogues.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Sentence(Enum):
    """Base of codes: a member's value is its sentence, with placeholders like `%(name)s`.

    Where 0.1.0 said it otherwise, that sentence is the second value: rows and messages have it.
    """

    def __init__(self, sentence: str, before: str = "") -> None:
        self.sentence = sentence  # reading `value` takes three times as long
        self.before = before or sentence

    def __call__(self, **facts: "Fact") -> "Reason":
        """Return this reason with the facts of one case, one for each placeholder."""
        return Reason(self, facts)


@dataclass(frozen=True, slots=True)
class Reason:
    """A sentence's code and its facts; several reasons in one fact are joined by semicolons."""

    code: Sentence
    facts: dict[str, "Fact"] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the sentence in English."""
        facts = self.facts
        for name, fact in facts.items():
            if type(fact) is tuple:
                facts = facts | {name: "; ".join(map(str, fact))}
        return self.code.sentence % facts

    def as_before(self) -> str:
        """Return the sentence as 0.1.0 said it; as today, if it lacks a fact for that."""
        facts = {name: _before(fact) for name, fact in self.facts.items()}
        try:
            return self.code.before % facts
        except KeyError:
            return str(self)


def _before(fact: "Fact") -> "Fact":
    if isinstance(fact, tuple):
        return "; ".join(str(_before(part)) for part in fact)
    return fact.as_before() if isinstance(fact, Reason) else fact


#: A reason, or a text from elsewhere: a job, an operating system, another version of Warren.
Words: TypeAlias = Reason | str
#: What a placeholder can hold.
Fact: TypeAlias = Words | int | float | tuple[Words, ...]


class Why(Sentence):
    """Why a run ended, was routed or was not, and why due times were skipped or jobs stopped."""

    # -- how a job's process ended ------------------------------------------------------------

    TIMED_OUT = "timed out after %(seconds)s s"
    KILLED = "killed"
    STOPPED_BY_SIGNAL = "stopped by %(signal)s"
    COVERED = "replaced by run %(id)s"
    CUT_OFF = "stopped because its executor shut down"
    NO_REASON = "failed by its handler, which gave no reason"
    CHANNEL_MISUSED = "its process wrote %(data)s to its executor's channel"
    NEEDED_SIGKILL = "%(stop)s; still running %(seconds)s s after SIGTERM, killed with SIGKILL"
    HUNG_AFTER_STOP = "%(stop)s; its handler returned, but its process hung at exit and was killed"
    EXIT_CODE = "exit code %(code)s"
    NO_RESULT = "ended with exit code %(code)s without a result"
    SIGNAL = "signal %(number)s"
    NAMED_SIGNAL = "%(name)s (signal %(number)s)"
    OUT_OF_MEMORY = "%(signal)s, most likely from the kernel's out-of-memory killer"
    NOTED = "%(words)s (%(notes)s)"
    NOTES = "(%(notes)s)"
    HUNG_AT_EXIT = "hung at exit, killed"
    EXIT_CODE_AT_EXIT = "exit code %(code)s at exit"
    SIGNAL_AT_EXIT = "%(signal)s at exit"
    SURVIVED = "could not be killed: %(processes)s"
    CANCELLED_TASKS = (
        "cancelled the tasks that it left running (%(n)s): %(tasks)s",
        "cancelled what it left running, %(n)s in all: %(tasks)s",
    )
    ENDED_ONE_LEFT = "ended 1 process that it left running: %(process)s"
    ENDED_LEFT = "ended %(n)s processes that it left running: %(processes)s"
    RESULT_TOO_LONG = "its result has %(n)s characters as JSON, too many to be kept"
    LOG_MISSING = "its log is missing: %(fault)s"
    LOG_INCOMPLETE = "its log is incomplete: %(why)s"
    DISK_NEARLY_FULL = "the disk is nearly full"

    # -- why an executor did not start a run --------------------------------------------------

    NO_PROCESS = "cannot start a process: %(why)s"
    TOO_MANY_FILES = "too many open files"
    START_FAILED = "cannot start its process: %(fault)s"
    ZYGOTE_DIED = ("the process that starts jobs on its executor died", "the zygote died")
    ZYGOTE_GONE = (
        "the process that starts jobs on its executor died and cannot be replaced: %(fault)s",
        "the zygote died and cannot be replaced: %(fault)s",
    )
    HANDLER_GONE = "no handler named %(name)r here"
    HANDLER_GONE_NEAR = "no handler named %(name)r here; did you mean %(near)r?"
    NO_HANDLER = "no handler named %(name)r on %(address)s"
    NO_INTERPRETER = "no interpreter: %(program)r is not on the PATH of this executor"
    INTERPRETER_FAILED = "cannot start %(program)r: %(fault)s"
    PARAM_HOLDS_NUL = "its param contains a NUL, which cannot be passed to a program"
    SCRIPT_NOT_WRITTEN = "cannot write its script: %(fault)s"
    UNKNOWN_LANGUAGE = "unknown script language %(language)r"
    SCRIPTS_OFF = "scripts are not allowed here: %(setting)s is off"
    LANGUAGE_OFF = "%(language)s scripts are not allowed here: %(setting)s is %(value)s"
    LANE_FULL = (
        "too many runs of the job already wait here: %(n)s",
        "%(n)s runs of the job are already waiting here",
    )
    EXECUTOR_FULL = (
        "too many runs already wait on this executor: %(n)s",
        "%(n)s runs are already waiting on this executor",
    )
    DISCARDED = (
        "another run of the job is running or waiting here",
        "DISCARD_LATER: another run of the job is running or waiting here",
    )
    OUTDATED = (
        "a newer run of the job is running or waiting here",
        "COVER_EARLY: a newer run of the job is running or waiting here",
    )
    DISCARDED_IN_CLUSTER = (
        "another run of the job is running or waiting",
        "DISCARD_LATER: another run of the job is running or waiting",
    )
    TOO_MANY_WAIT = (
        "the maximum number of runs of the job was already waiting: %(n)s",
        "%(n)s runs of the job were waiting already, and no more may",
    )
    OUTDATED_IN_CLUSTER = (
        "a newer run of the job is running or waiting",
        "COVER_EARLY: a newer run of the job is running or waiting",
    )
    OTHER_BOOT = (
        "it was addressed to another process of this executor (boot %(boot)s)",
        "it was addressed to boot %(boot)s",
    )
    TRIGGER_EXPIRED = "its trigger arrived too late"
    SHUTTING_DOWN = "the executor is shutting down"
    NOT_TAKEN = "cannot accept it: %(fault)s"
    CLOSED_OUT_OF_CONTACT = "it was ended while this executor was out of contact"
    SLOT_GONE = "it lost its slot before it started"
    EXECUTOR_ENDED = "the executor stopped while it was running"
    EXECUTOR_ENDED_BEFORE = "the executor stopped before it started"
    REPORT_FORGOTTEN = "it ended and was reported, but the report is no longer kept"

    # -- how runs ended at executors that registered with a gateway ---------------------------

    REMOTE_SIGNED_OFF = "%(url)s has signed off"
    REMOTE_UNREGISTERED = "%(url)s has stopped registering"
    REMOTE_SILENT = "%(url)s does not answer"
    REMOTE_UNREACHED = "cannot reach %(url)s: %(fault)s"
    REMOTE_REFUSED = "%(url)s refused it: %(words)s"
    REMOTE_SCRIPTS_OFF = (
        "%(language)s scripts are not sent to %(url)s: %(setting)s does not list that language"
    )
    REMOTE_CODE = "it ended with code %(code)s"
    REMOTE_STOPPED = "%(stop)s; told to stop, but whether it ended is unknown"
    REMOTE_UNSTOPPED = "%(stop)s; cannot be told to stop: %(fault)s; whether it ended is unknown"
    REMOTE_LOST = (
        "%(url)s has not called back, and for %(seconds)s s there was no sign that it is running"
    )

    # -- why an executor is busy --------------------------------------------------------------

    JOB_IS_HERE = "a run of the job is running or waiting here"
    RUN_IS_COMING = "a run of the job is on its way here"
    NO_FREE_SLOT = "every slot is taken"
    CPU_BUSY = "CPU at %(n)s %%, limit %(most)s %%"
    MEMORY_BUSY = "memory at %(n)s %%, limit %(most)s %%"
    DRAINING = "it is shutting down"
    JOURNAL_FAILING = "its journal cannot be written"
    TOO_MANY_REPORTS = "too many of its reports are waiting for the broker"
    OUT_OF_CONTACT = "it is out of contact"
    QUEUE_UNREACHABLE = "its queue at the broker cannot be reached"
    LOGS_NOT_STORED = "its finished logs do not reach the log store"
    SPARES_FAILING = (
        "its spare processes die one after the other",
        "its spare processes end one after the other",
    )
    ADDRESS_NOT_ALLOWED = (
        "its address is not listed in WARREN_GATEWAY_ALLOW; add it there and restart the gateway"
    )

    # -- how a run was routed -----------------------------------------------------------------

    ROUTED = (
        "%(kind)s, attempt %(attempt)s, %(left)s retries left; scheduler %(node)s; "
        "online: %(addresses)s; %(how)s"
    )
    LISTED_AND_AWAY = "listed but offline: %(addresses)s"
    WANTED = "requested: %(addresses)s"
    AILING = "%(address)s is impaired: %(ailments)s"
    ONE_OF = "%(route)s of %(n)s"
    TURN = "%(route)s, turn %(n)s"
    USE = "%(route)s, use %(n)s"
    FREE_SLOTS = "%(route)s, free slots: %(n)s"
    SHARD_OF = "%(route)s, shard %(index)s of %(total)s"
    SHARD = "%(route)s, shard %(index)s"
    SHARD_MOVED = "%(route)s, shard %(index)s, moved because its executor left"
    ASKED = "%(route)s: %(what)s"
    NOBODY_ASKED = "%(route)s: no executor has been asked yet"
    AWAY = "%(address)s is offline"
    SILENT = "%(address)s did not answer"
    SILENT_FOR = "%(address)s did not answer within %(seconds)s s"
    ANSWERED = "%(address)s answered in %(n)s ms"
    IDLE = "%(address)s is idle, free slots: %(n)s"
    BUSY = "%(address)s is busy: %(why)s"
    SLOTS_JUST_TAKEN = "its free slots were taken a moment ago"
    BEST = "none is idle, the best is %(address)s"
    NONE_LEFT = "none left"
    NOBODY_ONLINE = "no executor is online"
    APP_OFFLINE = "no executor of app %(app)s is online"
    WANTED_OFFLINE = "none of the requested executors is online: %(addresses)s"
    HANDLER_NOWHERE = "no online executor has handler %(name)r: %(addresses)s"
    HANDLER_NOT_WANTED = "no requested executor that is online has handler %(name)r: %(addresses)s"
    LANGUAGE_NOWHERE = "no online executor runs %(language)s scripts: %(addresses)s"
    LANGUAGE_NOT_WANTED = (
        "no requested executor that is online runs %(language)s scripts: %(addresses)s"
    )
    LISTED_OFFLINE = "none of the listed executors is online: %(addresses)s"
    LIMIT_GONE = "there is no limit named %(name)s"
    NEVER_FITS = "it takes %(n)s of limit %(name)s, which never has more than %(most)s"
    NOT_ROUTABLE = "it cannot be routed: %(why)s"
    ROUTE_FAILED = "route %(route)s failed: %(fault)s"
    SCRIPT_GONE = "its version of the script is gone"

    # -- warnings about the handler of a saved job --------------------------------------------

    HANDLER_MISSING = "no online executor has %(name)r"
    HANDLER_MISSING_NEAR = "no online executor has %(name)r; did you mean %(near)r?"
    UNCHECKED_OFFLINE = (
        "its handler and param were not checked: no executor of app %(app)s is online"
    )
    UNCHECKED_UNTOLD = (
        "its handler and param were not checked: %(address)s does not report all its handlers",
        "its handler and param were not checked: %(address)s does not tell all its handlers",
    )

    # -- warnings about the param of a run that is triggered -----------------------------------

    PARAM_UNCHECKED_OFFLINE = "the param was not checked: no executor of app %(app)s is online"
    PARAM_UNCHECKED_UNTOLD = (
        "the param was not checked: an executor of app %(app)s does not report all its handlers",
        "the param was not checked: an executor of app %(app)s does not tell all its handlers",
    )

    # -- why an executor or a job gets no runs at present --------------------------------------

    NO_SCHEDULER_ONLINE = "no scheduler is online"
    NOTHING_CONFIRMED = "the broker confirms nothing that schedulers send"
    PAUSED = "dispatch is paused until somebody resumes it"
    PAUSED_UNTIL = "dispatch is paused until %(until)s"
    APP_PAUSED = "app %(app)s is paused until somebody resumes it"
    APP_PAUSED_UNTIL = "app %(app)s is paused until %(until)s"
    WAITS_FOR = "it waits for %(limits)s"
    WAITS_FOR_HOLDERS = "%(name)s (%(held)s of %(most)s: %(holders)s)"
    WAITS_FOR_LIMIT = "%(name)s (%(held)s of %(most)s)"
    WAITS_FOR_QUEUES = "executors whose queues cannot be reached (%(addresses)s)"
    WAITS_FOR_BROKER = "the broker, which confirms nothing"
    WAITS_FOR_RATE = "%(name)s (%(rate)s per %(per)s)"
    OTHER_RUNS_OF_JOB = "the other runs of its job"
    NEVER_CONNECTED = "it has never connected"
    NO_HEARTBEAT = "it is offline, no heartbeat since %(since)s"
    TAKES_NO_MORE = "it is draining and takes no new runs"
    NOT_LISTED = "the address list of app %(app)s does not name it"
    NO_STARTED_JOB = "no job of app %(app)s is started"
    PASSED_OVER = "it is impaired, so runs go to other executors: %(ailments)s"
    ROUTED_ELSEWHERE = "the routes of all started jobs choose other executors: %(addresses)s"
    SLOTS_TAKEN = "all %(slots)s slots are taken, new runs wait"
    APP_SLOTS_TAKEN = "all %(slots)s slots of app %(app)s are taken, new runs wait"
    APP_LACKS_HANDLER = "no online executor of app %(app)s has handler %(name)r"
    APP_LACKS_LANGUAGE = "no online executor of app %(app)s runs %(language)s scripts"
    APP_DRAINING = "every executor of app %(app)s that is online is draining"

    # -- why a scheduler declares no executor dead --------------------------------------------

    BROKER_AWAY = "it has no connection to the broker"
    SENT_UNCONFIRMED = "the broker does not confirm what it sends to executors"
    CANARY_AWAY = "its messages to itself do not come back"
    CLOCK_JUMPS = "the clock of the database jumps"
    REPORTS_UNREAD = "it cannot read reports: their queue cannot be reached"
    OLD_SERVER_WRITABLE = "a replaced database server still takes writes"

    # -- how a scheduler ended a run ----------------------------------------------------------

    JOB_DELETED = "its job was deleted"
    JOB_STOPPED = "its job was stopped"
    JOB_GONE = "its job was deleted or changed"
    CANCELLED_BY = "cancelled by %(who)s before it was sent"
    KILL_REQUESTED = "killed by request"
    KILLED_BEFORE_START = "killed before it started (%(why)s)"
    RESULT_NOT_STORED = "its result could not be stored: %(why)s"
    QUEUE_MISSING = "the queue of executor %(address)s is missing"
    TRIGGER_NOT_MADE = "cannot build its trigger: %(why)s"
    TRIGGER_UNCONFIRMED = "its trigger was not confirmed and cannot be sent again: %(why)s"
    TRIGGER_UNREAD = "executor %(address)s stopped before it read the trigger"
    EXECUTOR_RESTARTED = "executor %(address)s was restarted before this run started"
    EXECUTOR_FORGOT = "executor %(address)s no longer knows this run"
    EXECUTOR_LOST = "executor %(address)s stopped or lost contact; how far this run got is unknown"

    # -- outcomes of flows and their nodes --------------------------------------------------------

    FLOW_FAILED = "failed, and no node handled it: %(nodes)s"
    FLOW_GONE = "its graph is gone or cannot be read"
    FLOW_STOPPED = "its flow was stopped"
    FLOW_RUNS = (
        "run %(id)s of the flow is still running",
        "DISCARD_LATER: run %(id)s of the flow is still running",
    )
    FLOW_OUTDATED = (
        "newer run %(id)s of the flow is running",
        "COVER_EARLY: newer run %(id)s of the flow is running",
    )
    NODE_BYPASSED = "%(node)s ended %(outcome)s, and %(needed)s was needed"
    NODE_CONDITION_FALSE = "its condition is false"
    NODE_NOT_REPEATED = "it had not run before, and was not repeated"
    NODE_NOT_BEGUN = "node %(node)s cannot begin: %(why)s"
    NODE_RUNS_GONE = "its runs were deleted"
    NODE_WITHOUT_ELEMENTS = "its list is empty"
    FLOW_RESULT_TOO_LONG = (
        "its result has %(n)s bytes as JSON; up to %(most)s are kept for other nodes"
    )

    # -- why nothing runs that a run has called -----------------------------------------------

    CALL_REFUSED = "its call no. %(number)s, of job %(job)r, was refused: %(why)s"
    NOT_IN_APP = "there is no such job in its app"
    CALLED_IS_STOPPED = "that job is stopped"
    CALL_MISFIT = "its param does not fit: %(why)s"
    CALL_NOT_STORED = "it could not be stored: %(why)s"

    # -- why due times were skipped, and jobs stopped -----------------------------------------

    OVERDUE = "over %(most)s runs are overdue"
    MISFIRED = (
        "%(seconds)s s late; its job skips what it missed",
        "misfired, %(seconds)s s late; policy %(policy)s",
    )
    CAUGHT_UP = "%(seconds)s s late; backfill %(id)s runs it"
    MISSED_CAUGHT_UP = "no scheduler could send it in time; backfill %(id)s runs it"
    MISSED_BY_PAUSE_CAUGHT_UP = "dispatch was paused when it was due; backfill %(id)s runs it"
    MISSED_BY_APP_PAUSE_CAUGHT_UP = "its app was paused when it was due; backfill %(id)s runs it"
    MISFIRED_IN_ONE = (
        "%(seconds)s s late; one run makes up for them all",
        "misfired, %(seconds)s s late; one MISFIRE run covers them all",
    )
    LATE_BEFORE_ANOTHER = "%(seconds)s s late; a later one ran instead"
    MISSED = (
        "no scheduler could send it in time; its job skips what it missed",
        "no scheduler could send it in time; policy %(policy)s",
    )
    MISSED_IN_ONE = (
        "no scheduler could send it in time; one run makes up for them all",
        "no scheduler could send it in time; one MISFIRE run covers them all",
    )
    MISSED_BEFORE_ANOTHER = "no scheduler could send it in time; a later one ran instead"
    MISSED_BY_PAUSE = (
        "dispatch was paused when it was due; its job skips what it missed",
        "dispatch was paused when it was due; policy %(policy)s",
    )
    MISSED_BY_PAUSE_IN_ONE = (
        "dispatch was paused when it was due; one run makes up for them all",
        "dispatch was paused when it was due; one MISFIRE run covers them all",
    )
    MISSED_BY_PAUSE_BEFORE_ANOTHER = "dispatch was paused when it was due; a later one ran instead"
    MISSED_BY_APP_PAUSE = (
        "its app was paused when it was due; its job skips what it missed",
        "its app was paused when it was due; policy %(policy)s",
    )
    MISSED_BY_APP_PAUSE_IN_ONE = (
        "its app was paused when it was due; one run makes up for them all",
        "its app was paused when it was due; one MISFIRE run covers them all",
    )
    MISSED_BY_APP_PAUSE_BEFORE_ANOTHER = (
        "its app was paused when it was due; a later one ran instead"
    )
    STOPPED_BY = "job stopped by %(who)s"
    DELETED_BY = "job deleted by %(who)s"
    SCHEDULE_CHANGED_BY = "schedule changed by %(who)s"
    NO_FURTHER_TIME = "its schedule has no more fire times"
    BACKFILLED_INSTEAD = "backfill %(id)s runs instead of its schedule"
    BACKFILL_ABOVE_CONCURRENCY = (
        "each executor runs %(n)s at a time of this job, so more of them may wait there"
    )
    BACKFILL_PAUSED_BY = "paused by %(who)s"
    BACKFILL_CANCELLED_BY = "cancelled by %(who)s"
    BACKFILL_FAILURE = "stopped because the run of %(date)s failed"
    SCHEDULE_OVER = "its schedule ended on %(until)s"
    CALENDAR_ENDED = (
        "its calendar %(calendar)r ends on %(until)s",
        "its calendar %(calendar)r knows no day after %(until)s",
    )
    TICK_ON_DAY_OFF = "a day off in calendar %(calendar)r %(name)s"
    TICK_OUTSIDE_WINDOW = "outside of the window %(window)s"
    TICK_BEFORE_FROM = "before %(begin)s, when the schedule begins"
    TICK_AFTER_UNTIL = "after %(until)s, when the schedule ends"
    TICK_MEETS_ANOTHER = "at the same time as another due time"
    TICK_DECIDED_BEFORE = "decided by an earlier version of the calendar, or at another time"
    CLOCK_DROPS = (
        "on %(date)s the clock leaves out %(first)s to %(last)s: nothing runs for that time"
    )
    CLOCK_MOVES = (
        "on %(date)s the clock leaves out %(first)s to %(last)s: what would be due then runs once, "
        "at %(last)s"
    )
    CLOCK_REPEATS = (
        "on %(date)s %(first)s to %(last)s comes twice: what is due then runs both times"
    )
    CLOCK_FIRST_ONLY = (
        "on %(date)s %(first)s to %(last)s comes twice: what is due then runs the first time only"
    )
    CLOCK_SECOND_ONLY = (
        "on %(date)s %(first)s to %(last)s comes twice: what is due then runs the second time only"
    )
    RUN_DATE_UNKNOWN = "no date for the run: calendar %(calendar)r: %(why)s"
    CALENDAR_MOVED_IT = (
        "version %(number)s of calendar %(calendar)r moved it into the past; nothing ran for it"
    )
    NOT_COMPUTABLE = (
        "its schedule cannot be computed: %(kind)s %(value)r in time zone %(zone)s, "
        "misfire policy %(policy)s"
    )
    NOT_PLANNABLE = "its runs cannot be planned: %(fault)s"
    IMPORTED_IN_PART = "not fully imported: %(why)s"

    # -- why an imported job is stopped -------------------------------------------------------

    COLUMN = "%(column)s: %(why)s"
    APP_UNREACHABLE = "its executors cannot join an app of that name"
    SCHEDULE_TOO_LONG = "longer than %(most)s characters"
    SCHEDULE_TYPE_UNKNOWN = "XXL-JOB has no such schedule type"
    CHOICE_UNKNOWN = "XXL-JOB has no such value; replaced by %(default)s"
    SCRIPT_TYPE_UNKNOWN = "scripts of this type do not exist here"
    SCRIPT_LEFT_OUT = "its script is left out: %(why)s"
    PYTHON_2 = "it is Python 2, which does not run here: port it to Python 3"
    CIRCLE_CUT = (
        "it was part of the cycle %(path)s",
        "it was part of the circle %(path)s",
    )

    # -- what the integrity check found -------------------------------------------------------

    SHARDS_MISCOUNTED = "%(rows)s of %(total)s shards have a row"
    BACKFILL_LOST = "backfill %(id)s has no run for it"
    BACKFILL_STRAY = "backfill %(id)s has a run for it that it did not plan"
    BACKFILLS_DOUBLED = "backfills %(id)s and %(other)s both ran it, as missing"
    BACKFILL_UNKNOWN = "its run belongs to backfill %(id)s, which does not exist"
    BACKFILL_MISCOUNTED = "backfill %(id)s counts %(got)s due times, and has %(n)s"
    PARENT_UNSUCCESSFUL = "%(path)s has not succeeded"
    PARENT_SUCCEEDED = "%(path)s succeeded"
    PARAM_NOT_MADE = "the template of its param fails: %(why)s"
    NODE_MISSING = "node %(node)s has no row"
    NODE_UNKNOWN = "node %(node)s is not in the graph"
    NODE_MOVED = "node %(node)s is %(stored)s; by its graph it is %(due)s"
    NODE_RUNS = "%(rows)s of %(total)s runs of node %(node)s have a row"
    NODE_OTHER = "node %(node)s is %(stored)s; by its runs it is %(due)s"
    FLOW_OTHER = "the flow is %(stored)s; by its nodes it is %(due)s"
    NOTHING_SETS_NEXT = "it is over, but its job has no next due time"
    TOO_NEAR = "closer to the previous due time than the delay allows"
    TICK_BEFORE_OPEN = "the previous run was not over"
