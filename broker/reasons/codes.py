"""Every reason that executors and schedulers give, each with its sentence.

A new one needs its line here, the place that gives it, and a translation in the catalogues.
"""

from broker.reasons.reason import Sentence


class Why(Sentence):
    """Why a run ended, was routed or not, and why due times were skipped or jobs stopped."""

    # -- how a job's process ended ------------------------------------------------------------

    TIMED_OUT = "timed out after %(seconds)s s"
    KILLED = "killed"
    STOPPED_BY_SIGNAL = "stopped by %(signal)s"
    COVERED = "covered by run %(id)s"
    CUT_OFF = "cut off by the end of its executor"
    CHANNEL_MISUSED = "its process wrote %(data)s into the channel to its executor"
    NEEDED_SIGKILL = "%(stop)s; did not end on SIGTERM within %(seconds)s s, killed with SIGKILL"
    HUNG_AFTER_STOP = "%(stop)s; its handler had returned, its process hung at exit and was killed"
    EXIT_CODE = "exit code %(code)s"
    NO_RESULT = "ended with exit code %(code)s without a result"
    SIGNAL = "signal %(number)s"
    NAMED_SIGNAL = "%(name)s (signal %(number)s)"
    OUT_OF_MEMORY = "%(signal)s, most likely by the kernel for lack of memory"
    NOTED = "%(words)s (%(notes)s)"
    NOTES = "(%(notes)s)"
    HUNG_AT_EXIT = "hung at exit, killed"
    EXIT_CODE_AT_EXIT = "exit code %(code)s at its exit"
    SIGNAL_AT_EXIT = "%(signal)s at its exit"
    SURVIVED = "could not be killed: %(processes)s"
    LOG_MISSING = "its log is missing: %(fault)s"
    LOG_INCOMPLETE = "its log is incomplete: %(why)s"
    DISK_NEARLY_FULL = "the disk is nearly full"

    # -- why an executor did not start a run --------------------------------------------------

    NO_PROCESS = "cannot start a process: %(why)s"
    TOO_MANY_FILES = "too many open files"
    START_FAILED = "cannot start its process: %(fault)s"
    ZYGOTE_DIED = "the zygote died"
    ZYGOTE_GONE = "the zygote died and cannot be replaced: %(fault)s"
    HANDLER_GONE = "no handler named %(name)r here"
    NO_HANDLER = "no handler named %(name)r on %(address)s"
    NO_INTERPRETER = "no interpreter: there is no %(program)r on the PATH of this executor"
    INTERPRETER_FAILED = "cannot start %(program)r: %(fault)s"
    PARAM_HOLDS_NUL = "its param holds a NUL, which no program can be given"
    SCRIPT_NOT_WRITTEN = "cannot write its script: %(fault)s"
    UNKNOWN_LANGUAGE = "unknown script language %(language)r"
    SCRIPTS_OFF = "scripts are not allowed here: %(setting)s is off"
    LANGUAGE_OFF = "%(language)s scripts are not allowed here: %(setting)s is %(value)s"
    LANE_FULL = "%(n)s runs of the job wait here already"
    EXECUTOR_FULL = "%(n)s runs wait on this executor already"
    DISCARDED = "DISCARD_LATER: another run of the job runs or waits here"
    OUTDATED = "COVER_EARLY: a newer run of the job runs or waits here"
    OTHER_BOOT = "it was addressed to boot %(boot)s"
    TRIGGER_EXPIRED = "its trigger came too late"
    SHUTTING_DOWN = "the executor is shutting down"
    NOT_TAKEN = "cannot take it: %(fault)s"
    CLOSED_OUT_OF_CONTACT = "it was ended while contact was lost"
    SLOT_GONE = "its slot was gone before it started"
    EXECUTOR_ENDED = "the executor ended while it ran"
    EXECUTOR_ENDED_BEFORE = "the executor ended before it started"
    REPORT_FORGOTTEN = "it ended and was reported; what was reported is no longer kept"

    # -- what became of runs at executors that registered with a gateway ----------------------

    REMOTE_SIGNED_OFF = "%(url)s has signed off"
    REMOTE_UNREGISTERED = "%(url)s does not register any more"
    REMOTE_SILENT = "%(url)s does not answer"
    REMOTE_UNREACHED = "cannot reach %(url)s: %(fault)s"
    REMOTE_REFUSED = "%(url)s refused it: %(words)s"
    REMOTE_SCRIPTS_OFF = (
        "%(language)s scripts are not sent to %(url)s: %(setting)s is not set to it"
    )
    REMOTE_CODE = "it ended with code %(code)s"
    REMOTE_STOPPED = "%(stop)s; told to stop; whether it ended is not known"
    REMOTE_UNSTOPPED = "%(stop)s; cannot be told to stop: %(fault)s; whether it ended is not known"
    REMOTE_LOST = "%(url)s has not called back, and for %(seconds)s s nothing showed that it runs"

    # -- why an executor is busy --------------------------------------------------------------

    JOB_IS_HERE = "the job runs or waits here"
    RUN_IS_COMING = "a run of the job is on its way here"
    NO_FREE_SLOT = "every slot is taken"
    CPU_BUSY = "CPU at %(n)s %%, limit %(most)s %%"
    MEMORY_BUSY = "memory at %(n)s %%, limit %(most)s %%"
    DRAINING = "it is shutting down"
    JOURNAL_FAILING = "its journal cannot be written"
    TOO_MANY_REPORTS = "too many of its reports wait for the broker"
    OUT_OF_CONTACT = "it is out of contact"

    # -- how a run was routed -----------------------------------------------------------------

    ROUTED = (
        "%(kind)s, attempt %(attempt)s, %(left)s retries left; scheduler %(node)s; "
        "online: %(addresses)s; %(how)s"
    )
    LISTED_AND_AWAY = "listed and away: %(addresses)s"
    WANTED = "wanted: %(addresses)s"
    AILING = "%(address)s ails: %(ailments)s"
    ONE_OF = "%(route)s of %(n)s"
    TURN = "%(route)s, turn %(n)s"
    USE = "%(route)s, use %(n)s"
    BY_HASH = "%(route)s of job %(id)s"
    SHARD_OF = "%(route)s, shard %(index)s of %(total)s"
    SHARD = "%(route)s, shard %(index)s"
    SHARD_MOVED = "%(route)s, shard %(index)s, whose executor has left"
    ASKED = "%(route)s: %(what)s"
    NOBODY_ASKED = "%(route)s: no executor was asked yet"
    AWAY = "%(address)s is away"
    SILENT = "%(address)s did not answer"
    SILENT_FOR = "%(address)s did not answer within %(seconds)s s"
    ANSWERED = "%(address)s answered in %(n)s ms"
    IDLE = "%(address)s is idle, slots free: %(n)s"
    BUSY = "%(address)s is busy: %(why)s"
    SLOTS_JUST_TAKEN = "its free slots were taken a moment ago"
    BEST = "none is idle, the best is %(address)s"
    NONE_LEFT = "none left"
    NOBODY_ONLINE = "no executor is online"
    APP_OFFLINE = "no executor of app %(app)s is online"
    WANTED_OFFLINE = "none of the wanted executors is online: %(addresses)s"
    LISTED_OFFLINE = "none of the listed executors is online: %(addresses)s"
    NOT_ROUTABLE = "it cannot be routed: %(why)s"
    ROUTE_FAILED = "route %(route)s failed: %(fault)s"
    SCRIPT_GONE = "version %(version)s of its script is gone"

    # -- how a scheduler ended a run ----------------------------------------------------------

    JOB_DELETED = "its job was deleted"
    JOB_STOPPED = "its job was stopped"
    JOB_GONE = "its job was deleted or changed"
    CANCELLED_BY = "cancelled by %(who)s before it was sent"
    KILL_REQUESTED = "killed by request"
    KILLED_BEFORE_START = "killed before it started (%(why)s)"
    RESULT_NOT_STORED = "its result could not be stored: %(why)s"
    QUEUE_MISSING = "the queue of executor %(address)s is missing"
    TRIGGER_NOT_MADE = "cannot make its trigger: %(why)s"
    TRIGGER_UNCONFIRMED = "its trigger was not confirmed and cannot be sent again: %(why)s"
    TRIGGER_UNREAD = "executor %(address)s ended before it took the trigger"
    EXECUTOR_RESTARTED = "executor %(address)s was restarted before this run started"
    EXECUTOR_FORGOT = "executor %(address)s does not know this run any more"
    EXECUTOR_LOST = "executor %(address)s ended or was cut off; nobody knows how far this run came"

    # -- why due times were skipped, and jobs stopped -----------------------------------------

    OVERDUE = "%(n)s runs are overdue, more than %(most)s"
    MISFIRED = "misfired, %(seconds)s s late; policy %(policy)s"
    MISFIRED_IN_ONE = "misfired, %(seconds)s s late; one MISFIRE run stands for all"
    MISSED = "no scheduler could send it in time; policy %(policy)s"
    MISSED_IN_ONE = "no scheduler could send it in time; one MISFIRE run stands for all"
    STOPPED_BY = "job stopped by %(who)s"
    DELETED_BY = "job deleted by %(who)s"
    SCHEDULE_CHANGED_BY = "schedule changed by %(who)s"
    NO_FURTHER_TIME = "its schedule has no further fire time"
    NOT_COMPUTABLE = "its schedule cannot be computed: %(why)s"
    NOT_PLANNABLE = "its runs cannot be planned: %(fault)s"

    # -- what the integrity check found -------------------------------------------------------

    SHARDS_MISCOUNTED = "%(rows)s of %(total)s shards have a row"
    PARENT_UNSUCCESSFUL = "%(path)s has not succeeded"
    PARENT_SUCCEEDED = "%(path)s succeeded"
    NOTHING_SETS_NEXT = "over, and nothing sets the next one"
    TOO_NEAR = "nearer to the tick before it than the delay"
    TICK_BEFORE_OPEN = "the tick before it was not over"
