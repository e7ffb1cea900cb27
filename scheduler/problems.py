"""Refusals as values: a code, the field at fault, and the facts.

Each code has its English sentence. Console, command line and API translate it when they show a
problem; no code depends on the text. `explanation` gives the form that rows store.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Self

from warren.broker.messages import cut_message
from warren.broker.reasons import Sentence, Words
from warren.broker.stored_reasons import to_json
from warren.resources.spelling import nearest
from warren.sql.errors import LookupFailed
from warren.sql.explanation import Explanation

#: The most characters of a user's text that an error message repeats.
_ECHO_LIMIT = 60


def explanation(words: Words) -> Explanation:
    """Return the stored form of a reason or text."""
    if isinstance(words, str):
        return Explanation(cut_message(words))
    return Explanation(cut_message(str(words)), to_json(words) or None)


def counted(number: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def fault_of(error: Exception, most: int = 500) -> str:
    """Return an error's message on one line of at most `most` characters."""
    return " ".join(str(error).split())[:most]


class ProblemKind(StrEnum):
    """The kind of a refusal, independent of what it is about."""

    #: The input is never valid.
    INVALID = "invalid"
    #: It does not exist, or the actor may not see it.
    UNKNOWN = "unknown"
    #: The present state does not allow it.
    CONFLICT = "conflict"
    #: The actor does not have the right.
    FORBIDDEN = "forbidden"


class Word(StrEnum):
    """Words in facts that need translation."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY_OF_MONTH = "day of month"
    MONTH = "month"
    DAY_OF_WEEK = "day of week"
    YEAR = "year"
    REMARK = "remark"
    LANGUAGE = "language"
    STYLE = "style"
    WHEN = "when"
    OPTION = "option"
    CONDITION = "condition"
    JOIN = "join"


class FieldName(str):
    """The name of a field as a fact; it may be translated."""

    __slots__ = ()


class Code(Sentence):
    """All reasons for refusals, each with its kind."""

    def __init__(self, sentence: str, kind: ProblemKind = ProblemKind.INVALID) -> None:
        super().__init__(sentence)
        self.kind = kind

    # When a job is due.
    CRON_TOO_LONG = "expected cron expression to have at most %(most)s characters, got: %(got)s"
    CRON_FIELD_COUNT = (
        "expected cron expression to have 6 or 7 fields (second minute hour day-of-month month "
        "day-of-week [year]), got: %(count)s in %(got)r"
    )
    CRON_DAY_FIELDS = (
        "expected exactly one of day of month and day of week to be '?', got: %(days)r "
        "and %(weekdays)r"
    )
    CRON_NOT_ALONE = "expected day of week with L or # to stand alone, got: %(got)r"
    CRON_BEFORE_LAST = "expected day of month to be L to L-30, got: %(got)r"
    CRON_NTH_WEEKDAY = "expected day of week to be the 1st to 5th (#1-#5), got: %(got)r"
    CRON_STEP_OF_NAME = "expected %(what)s by name to have no step, got: %(got)r"
    CRON_STEP = "expected step of %(what)s to be 1-%(most)s, got: %(got)r"
    CRON_NUMBER = "expected %(what)s to be %(least)s-%(most)s, got: %(got)r"
    CRON_NUMBER_OR_NAME = (
        "expected %(what)s to be %(least)s-%(most)s or %(first)s-%(last)s, got: %(got)r"
    )
    CRON_NEVER_FIRES = "cron %(cron)r never fires again"
    UNIX_CRON_FIELD_COUNT = (
        "expected a crontab line to have 5 fields (minute hour day-of-month month day-of-week), "
        "got: %(count)s in %(got)r"
    )
    WORKDAY = (
        "expected workday to be 1 to 23, or -1 to -23 from the end of the month, with a time like "
        "18:30, got: %(got)r"
    )
    WORKDAY_WITHOUT_CALENDAR = "expected a calendar, because workday is set"
    OPTION_NOT_TAKEN = "expected no %(what)s with %(kind)s"
    ON_HOLIDAY_ALONE = "expected a calendar, because on_holiday is set"
    WINDOW = "expected window to be two times of day like 08:00-20:00, got: %(got)r"
    WINDOW_EMPTY = "window %(got)r leaves no due time"
    JITTER = "expected jitter to be a duration from 1s to 24h such as 5m, got: %(got)r"
    JITTER_TOO_LONG = (
        "expected jitter to be less than the %(least)s s between two due times, got: %(got)s"
    )
    SCHEDULE_BOUND = (
        "expected %(what)s to be a date like 2026-12-01, or a local time like 2026-12-01T08:00, "
        "got: %(got)r"
    )
    FROM_AFTER_UNTIL = "expected from not to be after until, got: %(begin)s and %(until)s"
    OPTIONS_LEAVE_NONE = "the options of the schedule leave no due time"
    CALENDAR_NAME = "expected calendar to be a name like %(pattern)s, got: %(got)r"
    CALENDAR_UNKNOWN = "unknown calendar %(got)r; first: warren calendars apply"
    CALENDAR_UNKNOWN_NEAR = "unknown calendar %(got)r, did you mean %(near)r?"
    CALENDAR_PAST = (
        "calendar %(calendar)r ended on %(until)s: give it a later until, with the days off "
        "since then"
    )
    CALENDAR_WITHOUT_WORK = "calendar %(calendar)r has no working day from today to %(until)s"
    CALENDAR_NOT_KNOWN = "calendar %(calendar)r ends on %(until)s, asked for: %(got)s"
    CALENDAR_DAYS = "expected up to %(most)s days of a calendar, got: %(got)s"
    CALENDAR_DAY = "expected %(day)s to be work, off, or off with a name, got: %(got)r"
    CALENDAR_SOURCE = (
        "expected from to be like holidays:CN, or the name of an .ics file that is given too, "
        "got: %(got)r"
    )
    HOLIDAYS_UNKNOWN = "unknown country %(got)r, did you mean %(near)r?"
    HOLIDAYS_OVER = (
        "the package holidays has no data on %(got)r for %(year)s: add until: %(until)s, with "
        "days of your own"
    )
    HOLIDAYS_MISSING = (
        "the holidays of a country need warren[server], which includes the package holidays"
    )
    ICALENDAR_MISSING = "an .ics file needs warren[server], which includes the package icalendar"
    ICALENDAR = "expected %(got)r to be an iCalendar file with all-day events: %(why)s"
    NO_CALENDAR = "no calendar named %(name)r", ProblemKind.UNKNOWN
    NO_CALENDAR_VERSION = (
        "calendar %(name)r has no version %(number)s",
        ProblemKind.UNKNOWN,
    )
    CALENDAR_LEAVES_NONE = "calendar %(calendar)r leaves no due time: it ends on %(until)s"
    PERIOD = "expected period to be 1-999999999 whole seconds, got: %(got)r"
    INSTANT = "expected at to be an ISO 8601 instant with its offset, got: %(got)r"
    SCHEDULE_KIND = "expected schedule kind to be one of %(known)s, got: %(got)r"
    SCHEDULE_TOO_LONG = "expected a schedule of up to %(most)s characters, got: %(got)s"
    TIMEZONE = "expected timezone to be an IANA name, got: %(got)r"
    TIMEZONE_NEAR = "expected timezone to be an IANA name, got: %(got)r, did you mean %(near)r?"
    TIMEZONE_TOO_LONG = "unknown time zone %(got)r"

    # The other fields of a job.
    EMPTY = "expected %(what)s to be a non-empty text, got: ''"
    LINE = "expected %(what)s to be a line of up to %(most)s characters, got: %(got)r"
    INVISIBLE = "expected name to have visible characters only, it has %(got)s"
    INTEGER = "expected %(what)s to be an integer from %(least)s to %(most)s, got: %(got)s"
    UNKNOWN_WORD = "unknown %(what)s %(got)r; expected %(others)s or %(last)s"
    UNKNOWN_WORD_NEAR = "unknown %(what)s %(got)r, did you mean %(near)r?"
    ROUTE = "expected route to be one of %(known)s, got: %(got)r"
    SLASH = "expected name to contain no '/', got: %(got)r"
    PARAM_TOO_LONG = "expected param to be up to %(most)s bytes, got: %(got)s bytes"
    PARAM_NO_JSON = "expected param to be JSON, because its handler has params: %(fault)s"
    PARAM_MISSING = "expected param to have %(name)r"
    PARAM_NEEDED = "expected a param, because the job has none and its handler takes %(params)s"
    PARAM_UNKNOWN = "param has no %(name)r"
    PARAM_UNKNOWN_NEAR = "param has no %(name)r, did you mean %(near)r?"
    PARAM_TYPE = "expected %(name)s to be %(kind)s, got: %(got)s"
    PARAM_CHOICE = "expected %(name)s to be one of %(choices)s, got: %(got)s"
    PARAM_RULE = "expected %(name)s to satisfy %(rule)s, got: %(got)s"
    PARAM_OF_SCRIPT = (
        "expected param of a script to contain no NUL, which cannot be passed to a program"
    )
    HANDLER_AND_SCRIPT = "expected either handler or script, got: both"
    PROCESS_OF_SCRIPT = (
        "expected process of a script to be job or fresh, since a script has no handler to share a "
        "process with, got: %(got)r"
    )
    PROCESS_CONTRADICTED = (
        "process %(got)r contradicts fresh_process %(older)s, which means process %(meant)r"
    )
    SHARE = "expected %(what)s to be a number from 0 to 1 with up to two decimals, got: %(got)s"
    RETRY_MOST = "expected %(what)s to be at least the delay of %(delay)s s, got: %(got)s"
    RETRY_DELAY = "expected a delay before retries, because their backoff is exponential"
    RETRY_CONTRADICTED = "%(short)r %(said)s contradicts %(key)r %(got)s of 'retry'"
    TOO_MANY_CHILDREN = "expected children to be up to %(most)s, got: %(got)s"
    CHILD_NAME = "expected children to be names of jobs, NAME or APP/NAME, got: %(got)r"
    TAG = "expected tags to be words of up to 32 characters without commas, got: %(got)r"
    TAGS = "expected up to %(most)s tags, of %(longest)s characters together"
    TAG_TWICE = "duplicate tag %(got)r"
    CHILD_TWICE = "duplicate child %(got)r"
    UNKNOWN_CHILD = "unknown child %(got)r"
    UNKNOWN_CHILD_NEAR = "unknown child %(got)r, did you mean %(near)r?"
    UNKNOWN_APP = "unknown app %(got)r"
    UNKNOWN_APP_NEAR = "unknown app %(got)r, did you mean %(near)r?"
    DECLARED_IN_FILE = (
        "this job is already declared in a job file; declare it in one place, or move it here "
        "with take-over"
    )
    DECLARED_IN_CODE = (
        "this job is already declared in code, in %(module)s; declare it in one place, or move "
        "it here with take-over"
    )
    MODULE_TOO_LONG = "expected the name of a module of up to %(most)s characters, got: %(got)r"
    JOB_NAME_TAKEN = "app %(app)s already has a job named %(name)r", ProblemKind.CONFLICT

    # Limits.
    LIMIT_NAME = "expected name of a limit to be like %(pattern)s, got: %(got)r"
    LIMIT_EMPTY = "expected limit %(name)r to have at_once, or rate and per"
    LIMIT_RATE = "expected limit %(name)r to have both rate and per"
    LIMIT_USE = "expected limits to be names, NAME or NAME:WEIGHT, got: %(got)r"
    LIMIT_TWICE = "duplicate limit %(got)r"
    LIMITS_TOO_MANY = "expected up to %(most)s limits, of %(longest)s characters together"
    LIMIT_TOO_SMALL = "each run takes %(n)s of limit %(name)r, which never has more than %(most)s"
    LIMIT_TAKEN = (
        "each run of job %(name)s takes %(n)s of limit %(limit)r, which must be at least as high",
        ProblemKind.CONFLICT,
    )
    LIMIT_NAMED = (
        "cannot delete limit %(name)r: it is named by %(jobs)s",
        ProblemKind.CONFLICT,
    )
    LIMIT_HELD = "cannot delete limit %(name)r: it is held by %(runs)s", ProblemKind.CONFLICT
    NO_LIMIT_NAMED = "no limit named %(name)r", ProblemKind.UNKNOWN
    LIMIT_UNKNOWN = "unknown limit %(got)r"
    LIMIT_UNKNOWN_NEAR = "unknown limit %(got)r, did you mean %(near)r?"
    TOO_MANY_WAITING = (
        "job %(job)s already has the maximum number of waiting runs: %(n)s",
        ProblemKind.CONFLICT,
    )
    SCOPE_OF_BROADCAST = (
        "expected scope executor for a job with route %(route)s, which runs on all executors"
    )

    # What is expected of a job.
    EXPECT_DURATION = "expected %(what)s to be a duration such as 90s, 5m, 2h or 1d, got: %(got)r"
    EXPECT_TIME = "expected %(what)s to be a time of day like '07:00', got: %(got)r"
    EXPECT_LONGEST = (
        "expected %(what)s to be a duration like 30m, or like '3 x usual' with a number over 1, "
        "got: %(got)r"
    )
    EXPECT_RULE = "expected expect to be like 'start_within: 5m, finish_by: 07:00', got: %(got)r"
    EXPECT_NO_SCHEDULE = "expected a schedule, because %(what)s is set"
    EXPECT_OVER_TIMEOUT = (
        "expected %(what)s to be under the timeout of %(most)s s, got: %(got)s; it would never "
        "trigger"
    )
    EXPECT_UNDER_PERIOD = (
        "expected %(what)s to be at least the schedule's %(least)s s, got: %(got)s; it could not "
        "be met"
    )

    # Flows.
    FLOW_AND_HANDLER = "expected either a flow, or a handler or script, got: both"
    FLOW_LIMITS = "a flow cannot have limits; its nodes use those of their jobs"
    FLOW_SCOPE = "the block policy of a flow applies to the whole cluster anyway; leave out scope"
    FLOW_JOB_UNKNOWN = "node %(node)s of job %(job)s: unknown job %(got)r"
    FLOW_JOB_UNKNOWN_NEAR = (
        "node %(node)s of job %(job)s: unknown job %(got)r, did you mean %(near)r?"
    )
    FLOW_IN_FLOW = "node %(node)s of job %(job)s: expected a job with a handler, got flow %(got)r"
    FLOW_IS_NODE = "job %(job)s cannot become a flow: it is a node of %(flows)s"
    STILL_A_NODE = (
        "cannot delete job %(job)s: it is still a node of flow %(flows)s",
        ProblemKind.CONFLICT,
    )
    STILL_A_HIDDEN_NODE = (
        "cannot delete: it is still a node of other apps' flows",
        ProblemKind.CONFLICT,
    )
    FLOW_SIZE = "expected a flow of 1 to %(most)s nodes, got: %(got)s"
    FLOW_TOO_LONG = "expected a flow of up to %(most)s bytes as JSON, got: %(got)s bytes"
    FLOW_FORM = "expected flow to be a mapping such as '{load: {job: NAME}}', got: %(got)s"
    FLOW_NODE_FORM = "expected node %(node)s to be a mapping such as '{job: NAME}', got: %(got)s"
    FLOW_AFTER_FORM = (
        "expected node %(node)s to run after a node, a list of nodes, or a mapping such as "
        "'{load: failure}', got: %(got)s"
    )
    FLOW_RETRY_FORM = (
        "expected retry of node %(node)s to be a mapping such as '{delay: 10s}', got: %(got)s"
    )
    FLOW_TEXT = "expected %(option)s of node %(node)s to be text, got: %(got)s"
    FLOW_NODE_NAME = (
        "expected nodes to have names of up to %(most)s letters, digits and _, with no other "
        "meaning in expressions, got: %(got)r"
    )
    FLOW_JOB = "expected job of node %(node)s to be NAME or APP/NAME, got: %(got)s"
    FLOW_AFTER_UNKNOWN = "node %(node)s runs after %(got)r, which is not a node of the flow"
    FLOW_CIRCLE = "the nodes of the flow form a cycle: %(path)s"
    FLOW_EXPRESSION = "%(option)s of node %(node)s cannot be read: %(why)s"
    FLOW_NAME_UNKNOWN = (
        "%(option)s of node %(node)s names %(got)r, which may not be over when the node begins; "
        "it may name %(known)s"
    )
    FLOW_PARAM_AND_EACH = (
        "expected node %(node)s to have either each, whose elements are the params, or param, "
        "got: both"
    )

    # Scripts.
    SOURCE_EMPTY = "expected source to be a script, got: nothing"
    SOURCE_NUL = "expected source to be text, got: a NUL in line %(line)s"
    SOURCE_SURROGATE = "expected source to be text, got: half of a character"
    SOURCE_TOO_LONG = "expected source to be up to %(most)s bytes, got: %(got)s bytes"
    SOURCE_MESSAGE_TOO_LONG = (
        "expected source to take up to %(most)s bytes in a message, got: %(got)s bytes"
    )
    REMARK = "expected remark to be 1 to %(most)s characters"

    # Apps and alarm targets.
    APP_NAME = "expected app to be a name like %(pattern)s, got: %(got)r"
    APP_NAME_RESERVED = "expected the app not to be named %(got)r: that is a path of the HTTP API"
    TITLE = "expected title to be up to %(most)s characters, got: %(got)r"
    ADDRESS = "expected addresses to be names like %(pattern)s, got: %(got)r"
    ADDRESS_TWICE = "duplicate address %(got)r"
    ADDRESSES_TOO_LONG = "expected addresses to take up to %(most)s characters, got: %(got)s"
    EMAIL = "expected emails to be addresses, got: %(got)r"
    EMAILS_TOO_LONG = "expected emails to take up to %(most)s characters"
    WEBHOOK = "expected webhook to be an http(s) URL, got: %(got)r"
    WEBHOOK_USER = "expected webhook to contain no user name or password"
    WEBHOOK_LINK_LOCAL = "expected webhook not to point to a link-local address, got: %(got)r"
    UNKNOWN_STYLE = "unknown %(what)s %(got)r; expected one of %(known)s"
    STYLE_ALONE = "expected a webhook, because style is set"
    SIGNING_ALONE = "expected secret with a webhook of a service that takes signatures: %(known)s"
    SIGNING = "expected secret to be up to %(most)s printable characters without spaces"
    WHEN_ALONE = "expected a url, because when is set"

    # Tests of alarm targets, and undelivered alarms.
    NOTHING_TO_TEST = "nobody to alarm: neither %(what)s nor its app names an e-mail or a webhook"
    NO_MAIL_SERVER = (
        "no e-mail can be sent: no scheduler that is online has WARREN_SMTP_URL",
        ProblemKind.CONFLICT,
    )
    NO_SENDER = "nothing can be sent: no scheduler is online", ProblemKind.CONFLICT
    TOO_MANY_TESTS = "expected up to %(most)s tests of alarms a minute", ProblemKind.CONFLICT

    # Changes to jobs.
    NO_SCHEDULE = "cannot start job %(job)s: it has no schedule"
    NEVER_FIRES = "cannot start job %(job)s: %(why)s"
    CHILDREN_UNKNOWN = "cannot save job %(job)s: unknown child %(children)s"
    CHILDREN_UNKNOWN_NEAR = (
        "cannot save job %(job)s: unknown child %(children)s, did you mean %(near)r?"
    )
    CHILDREN_TOO_MANY = "cannot save job %(job)s: expected up to %(most)s children, got: %(got)s"
    CIRCLE = "cannot save job %(job)s: its children form a cycle: %(path)s"
    HIDDEN_CIRCLE = "cannot save job %(job)s: its children form a cycle"
    STILL_A_CHILD = (
        "cannot delete job %(job)s: it is still a child of %(parents)s",
        ProblemKind.CONFLICT,
    )
    STILL_A_HIDDEN_CHILD = (
        "cannot delete: it is still a child of other apps' jobs",
        ProblemKind.CONFLICT,
    )
    WANTED_ADDRESS = "expected address to be a registered executor of app %(app)s, got: %(got)r"
    JOB_CHANGED = "job %(job)s has been changed in the meantime", ProblemKind.CONFLICT
    IN_JOB = "job %(job)s: %(why)s"
    EDIT_TOO_MANY = "expected up to %(most)s jobs at once, got: more"
    EDIT_OF_NO_LIST = "expected mode to be set, because %(what)s is not a list, got: %(got)s"
    EDIT_TEXT = "expected %(what)s to be text, got: a list"
    EDIT_NOT_KEPT = "the previous %(what)s of job %(job)s was not kept", ProblemKind.CONFLICT
    NO_EDIT = "no edit of many jobs with id %(id)s", ProblemKind.UNKNOWN
    NO_JOB = "no job with id %(id)s", ProblemKind.UNKNOWN
    NO_JOB_NAMED = "no job named %(name)r", ProblemKind.UNKNOWN
    NO_JOB_NAMED_NEAR = "no job named %(name)r, did you mean %(near)r?", ProblemKind.UNKNOWN
    NO_JOB_IN_APP = "no job named %(name)r in app %(app)r", ProblemKind.UNKNOWN
    SEVERAL_JOBS_NAMED = (
        "several apps have a job named %(name)r; write APP/%(name)s",
        ProblemKind.CONFLICT,
    )

    # Changes to scripts and runs.
    SCRIPT_CHANGED = (
        "version %(version)s was saved by %(who)s in the meantime",
        ProblemKind.CONFLICT,
    )
    NO_SCRIPT = "job %(id)s has no script", ProblemKind.UNKNOWN
    NO_SCRIPT_VERSION = (
        "job %(id)s has no version %(version)s of its script",
        ProblemKind.UNKNOWN,
    )
    NO_RUN = "no run with id %(id)s", ProblemKind.UNKNOWN
    KEY_REUSED = "the idempotency key was already used for another request"
    RUN_OVER = "run %(id)s is already %(status)s", ProblemKind.CONFLICT
    RUN_NOT_TRIGGERED = (
        "nobody triggered run %(id)s, so it cannot be moved or cancelled by itself",
        ProblemKind.CONFLICT,
    )
    TRIGGER_PAST = "expected at to be in the future, got: %(got)s; set late to run it now"
    MOVE_PAST = "expected at to be in the future, got: %(got)s"
    TRIGGER_TOO_FAR = "expected %(what)s to be within ten years, got: %(got)s"
    PARAM_NOT_MADE = "%(why)s"
    PARAM_TEMPLATE = "expected param_template to be text with expressions in {{ }}: %(why)s"
    PARAM_AND_TEMPLATE = "expected either param or param_template, got: both"
    RUN_DATE_WITHOUT_CALENDAR = "expected a calendar, because workdays is set"
    RUN_DATE_UNKNOWN = "no date for the run: calendar %(calendar)r: %(why)s"
    RUN_DATE = "expected a date as YYYY-MM-DD, such as 2026-12-01, got: %(got)s"
    TRIGGER_AT_AND_IN = "expected either at or in, got: both"
    RERUN_OPEN = (
        "cannot repeat run %(id)s: it is still %(status)s; wait for its end, or kill it",
        ProblemKind.CONFLICT,
    )
    RERUN_UNDERWAY = (
        "cannot repeat run %(id)s: run %(other)s for its due time is %(status)s; wait or kill it",
        ProblemKind.CONFLICT,
    )
    RERUN_JOB_GONE = (
        "cannot repeat run %(id)s: its job was deleted; create the job again and trigger it",
        ProblemKind.CONFLICT,
    )
    RERUN_VERSION_GONE = (
        "cannot repeat run %(id)s as it was: its script version is gone; use the current settings",
        ProblemKind.CONFLICT,
    )
    RERUN_CHILDREN = (
        "run %(id)s's children have already run for its due time; run them again? %(children)s",
        ProblemKind.CONFLICT,
    )
    CATCH_UP_UNUSED = "expected misfire CATCH_UP beside catch_up, got: %(got)s"
    CATCH_UP_DELAY = "the due times of a delay depend on its runs, so they cannot be caught up"
    BACKFILL_RANGE = (
        "expected a range of dates that begins before it ends, got: %(first)s to %(last)s"
    )
    BACKFILL_NO_RANGE = "expected the first and the last date of a range"
    BACKFILL_FUTURE = "expected dates up to %(last)s, the newest that has begun, got: %(got)s"
    BACKFILL_NO_SCHEDULE = (
        "job %(job)s has no schedule, so it has no due times to fill; choose one run per date"
    )
    BACKFILL_DELAY = "the due times of job %(job)s depend on its runs; choose one run per date"
    BACKFILL_EMPTY = "job %(job)s has no due time with a run date from %(first)s to %(last)s so far"
    BACKFILL_NO_TICK = "job %(job)s has no due time there by its current schedule"
    BACKFILL_TOO_LONG = "expected up to %(most)s due times, got %(got)s"
    BACKFILL_AT_ONCE = "expected at-once to be 1 to %(most)s, got: %(got)s"
    BACKFILL_KEY = "expected the key to be like %(pattern)s, got: %(got)r"
    BACKFILL_SKIPS = "expected skips of job %(job)s, got: %(got)s"
    NO_BACKFILL = "no backfill %(id)s", ProblemKind.UNKNOWN
    BACKFILL_OVER = "backfill %(id)s is already over (%(state)s)", ProblemKind.CONFLICT
    RERUN_NOTHING = "no run that can be repeated matches"
    RERUN_PARTS = "expected one of failed, from and only, got several"
    RERUN_NO_FLOW = (
        "run %(id)s is not a run of a flow, its job is no longer a flow, or it never began; run "
        "it again as a whole"
    )
    RERUN_NO_NODE = "the graph that would run has no node %(node)r; it has %(known)s"
    RERUN_NOTHING_FAILED = (
        "run %(id)s has no failure that was not handled; name a node, or run it again as a whole"
    )
    NOTHING_TO_CLEAR = "no such job or app", ProblemKind.UNKNOWN

    # Changes to apps, executors and users.
    APP_NAME_TAKEN = "there is already an app named %(name)r", ProblemKind.CONFLICT
    APP_IN_USE = "app %(app)s is in use", ProblemKind.CONFLICT
    NO_APP = "no app %(id)s", ProblemKind.UNKNOWN
    NO_APP_NAMED = "no app named %(name)r", ProblemKind.UNKNOWN
    NO_USER = "no user %(id)s", ProblemKind.UNKNOWN
    NO_USER_NAMED = "no user named %(name)r", ProblemKind.UNKNOWN
    PAUSE_REASON = "expected reason to be a line of up to %(most)s characters, got: %(got)r"
    PAUSE_END = "expected the pause to end between now and the year 9999, got: %(got)s"
    NO_ALARM = "no alarm with id %(id)s", ProblemKind.UNKNOWN
    NO_INCIDENT = "no incident with id %(id)s", ProblemKind.UNKNOWN
    INCIDENT_CLOSED = "incident %(id)s is already closed", ProblemKind.CONFLICT
    INCIDENT_NOTE = "expected note to be a line of up to %(most)s characters, got: %(got)r"
    INCIDENT_END = "expected until to be between now and the year 9999, got: %(got)s"
    MUTE_REASON = "expected why to be a line of up to %(most)s characters, got: %(got)r"
    MUTE_END = "expected until to be within the next %(most)s days, got: %(got)s"
    NO_EXECUTOR = "no executor with id %(id)s", ProblemKind.UNKNOWN
    EXECUTOR_ONLINE = "executor %(address)s is online; drain it first", ProblemKind.CONFLICT
    EXECUTOR_BUSY = (
        "executor %(address)s has open runs (%(n)s); they must end first",
        ProblemKind.CONFLICT,
    )
    NO_EXECUTOR_AT = "no executor with address %(address)r", ProblemKind.UNKNOWN
    SEVERAL_EXECUTORS_AT = (
        "several executors have address %(address)s: %(names)s",
        ProblemKind.CONFLICT,
    )
    USER_NAME = "expected the user's name to be like %(pattern)s, got: %(got)r"
    USER_NAME_TAKEN = "there is already a user named %(name)r", ProblemKind.CONFLICT
    USER_CHANGED = "user %(name)s has been changed in the meantime", ProblemKind.CONFLICT
    OWN_USER = "%(name)s cannot do this to their own user", ProblemKind.CONFLICT
    LAST_ADMINISTRATOR = "%(name)s is the only administrator who can sign in", ProblemKind.CONFLICT
    ADMINISTRATOR_WITH_APPS = "an administrator has all apps; leave them out"
    NO_APPS = "expected the apps of a new %(role)s, got none"
    VIEWER_WITH_SCRIPTS = "a viewer cannot change scripts"
    PASSWORD_OF_LINKED = (
        "%(name)s signs in by single sign-on and has no password; unlink it first",
        ProblemKind.CONFLICT,
    )
    RIGHTS_BY_RULES = (
        "the rights of %(name)s come from the rules of single sign-on",
        ProblemKind.CONFLICT,
    )

    # Single sign-on.
    SUBJECT = "expected the subject to be a line of 1 to %(most)s characters, got: %(got)r"
    IDENTITY_TAKEN = "this identity is already linked to user %(name)s", ProblemKind.CONFLICT
    USER_LINKED = "%(name)s is already linked to an identity; unlink it first", ProblemKind.CONFLICT
    USER_NOT_LINKED = "%(name)s is not linked to an identity", ProblemKind.CONFLICT
    LAST_PASSWORD = (
        "%(name)s is the only administrator with a password, and would lose it",
        ProblemKind.CONFLICT,
    )
    LINK_WITHOUT_RULE = (
        "no rule matches the groups of this identity, so %(name)s would lose all rights",
        ProblemKind.CONFLICT,
    )
    RULE_GROUP = "expected group to be a line of 1 to %(most)s characters, got: %(got)r"
    RULES_TOO_MANY = "expected up to %(most)s rules, got: %(got)s"
    RULE_UNKNOWN = "there is no rule for group %(group)r", ProblemKind.UNKNOWN
    IN_RULE = "rule for group %(group)r: %(why)s"
    RULES_WITHOUT_ADMINISTRATOR = (
        "these rules would leave no administrator who can sign in",
        ProblemKind.CONFLICT,
    )
    RULES_CHANGED = (
        "rules, users or groups have changed since this was shown",
        ProblemKind.CONFLICT,
    )

    # Passwords.
    WEAK_LENGTH = "expected the password to have %(least)s to %(most)s characters, it has %(got)s"
    WEAK_NAME = "expected the password not to be the user's name"
    WEAK_COMMON = "expected the password not to be a common one"
    WEAK_ENCODING = "expected the password to be UTF-8"

    # Tokens.
    TOKEN_NAME = "expected the token's name to be like %(pattern)s, got: %(got)r"  # noqa: S105 - a sentence
    TOKEN_NAME_TAKEN = (
        "there already is, or was, a token named %(name)r",
        ProblemKind.CONFLICT,
    )
    TOKEN_DAYS = "expected a token to be valid for 1 to %(most)s days, got: %(got)s"  # noqa: S105 - as above
    TOKEN_JOBS = "expected up to %(most)s jobs for a token, got: %(got)s"  # noqa: S105 - as above
    NO_SCOPES = "expected at least one scope of %(known)s"
    SCOPES_OF_JOBS = "a token for some jobs only cannot have scope %(got)s"
    SCOPES_OF_APPS = "a token for some apps only cannot have scope %(got)s"
    SCOPE_OF_OWNER = "%(name)s may not do what scope %(got)s allows"
    APP_OF_OWNER = "%(name)s has no access to app %(got)r"
    JOB_OF_OWNER = (
        "expected jobs of apps that both %(name)s and the token have access to, got: %(got)r"
    )
    NO_LOGIN = "this command-line login was already answered, or has expired", ProblemKind.UNKNOWN
    NO_TOKEN = "no token with id %(id)s", ProblemKind.UNKNOWN
    NO_TOKEN_NAMED = "no token named %(name)r", ProblemKind.UNKNOWN
    NO_RIGHT = "%(who)s is not allowed to do this", ProblemKind.FORBIDDEN


class Refused(ValueError):
    """A command was refused because of one problem or several."""

    def __init__(self, problems: Iterable["Problem"]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class Problem(Refused):
    """One reason for a refusal.

    Args:
        code: what is wrong.
        field: its path in a job file, such as `timeout` or `alarm/webhook`; empty = no field.
        facts: values for the placeholders of the code's sentence.

    """

    def __init__(self, code: Code, field: str = "", /, **facts: Any) -> None:
        self.code = code
        self.field = field
        self.facts = facts
        self.reason = code(**facts)
        ValueError.__init__(self, str(self.reason))
        self.problems = (self,)

    def at(self, field: str) -> Self:
        """Return the same problem, assigned to this field."""
        return type(self)(self.code, field, **self.facts)

    def about(self, **facts: Any) -> Self:
        """Return the same problem with further facts."""
        return type(self)(self.code, self.field, **self.facts | facts)


def refusal(problems: Sequence[Problem]) -> Refused:
    """Return what is raised for these problems: one alone as itself."""
    return problems[0] if len(problems) == 1 else Refused(problems)


def lookup_problem(error: LookupFailed) -> Problem:
    """Return the problem that a row was not found."""
    return Problem(Code[error.code.name], **error.facts)


def found(check: Callable[[], object], field: str = "") -> tuple[Problem, ...]:
    """Run a check and return the problems that it raises, assigned to `field` if given."""
    try:
        check()
    except Refused as error:
        return tuple(problem.at(field) for problem in error.problems) if field else error.problems
    return ()


class _Cut(str):
    """The beginning of a text, marked as cut."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{super().__repr__()}..."


def echo(text: str) -> str:
    """Return the offending text, cut if it is long."""
    return text if len(text) <= _ECHO_LIMIT else _Cut(text[:_ECHO_LIMIT])


def unknown_word(
    field: str,
    what: Word | FieldName,
    got: str,
    known: Sequence[str],
    code: Code = Code.UNKNOWN_WORD,
) -> Problem:
    """Return the problem of an unknown word, with the nearest known word if one is close."""
    facts = {"what": what, "got": got[:100]}
    if near := nearest(got, known):
        return Problem(Code.UNKNOWN_WORD_NEAR, field, near=str(near), **facts)
    others, last = ", ".join(known[:-1]), str(known[-1])
    return Problem(code, field, known=", ".join(known), others=others, last=last, **facts)


def unknown_app(name: str, known: Iterable[str], field: str = "app") -> Problem:
    """Return the problem of an unknown app, with the nearest known one if one is close."""
    if near := nearest(name, known):
        return Problem(Code.UNKNOWN_APP_NEAR, field, got=name[:100], near=near)
    return Problem(Code.UNKNOWN_APP, field, got=name[:100])
