"""Sentences that say why a run exists and how it ended."""

from flask_babel import lazy_gettext

from sql.run_status import Kind, RunStatus

CAUSE = {
    Kind.SCHEDULE: lazy_gettext("Its schedule came due."),
    Kind.MISFIRE: lazy_gettext("Due times were missed; this run makes up for them."),
    Kind.MANUAL: lazy_gettext("Somebody triggered it."),
    Kind.API: lazy_gettext("A program triggered it."),
    Kind.RETRY: lazy_gettext("The previous attempt did not succeed."),
    Kind.PARENT: lazy_gettext("Its parent job succeeded."),
}
RESULT = {
    RunStatus.PLANNED: lazy_gettext("Waiting until it is due and an executor has room."),
    RunStatus.ROUTED: lazy_gettext("An executor was chosen; its message is on the way."),
    RunStatus.SENT: lazy_gettext("The broker has its message; the executor starts it in turn."),
    RunStatus.RUNNING: lazy_gettext("Its process is running."),
    RunStatus.SUCCEEDED: lazy_gettext("It ended without an error."),
    RunStatus.FAILED: lazy_gettext("It ended with an error; the message says which."),
    RunStatus.TIMED_OUT: lazy_gettext("It exceeded its timeout and was stopped."),
    RunStatus.KILLED: lazy_gettext("It was killed, and nothing of it is left running."),
    RunStatus.REFUSED: lazy_gettext("The executor refused it; the message says why."),
    RunStatus.LOST: lazy_gettext(
        "Its executor was lost after it may have started; how far it came is not known."
    ),
    RunStatus.UNDELIVERED: lazy_gettext("It never started: no executor took it."),
    RunStatus.CANCELLED: lazy_gettext("It was cancelled before it was dispatched."),
}
