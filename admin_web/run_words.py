"""A run in words: why it is there, and what became of it."""

from flask_babel import lazy_gettext

from sql.run_status import Kind, RunStatus

CAUSE = {
    Kind.CRON: lazy_gettext("Its schedule came due."),
    Kind.MISFIRE: lazy_gettext("Times were missed; it makes up for the last of them."),
    Kind.MANUAL: lazy_gettext("Somebody triggered it by hand."),
    Kind.API: lazy_gettext("A program triggered it."),
    Kind.RETRY: lazy_gettext("The attempt before it did not succeed."),
    Kind.PARENT: lazy_gettext("The job before it succeeded."),
}
RESULT = {
    RunStatus.PLANNED: lazy_gettext("It waits until it is due and an executor has room."),
    RunStatus.ROUTED: lazy_gettext("An executor was chosen; its message is on the way."),
    RunStatus.SENT: lazy_gettext("The broker has its message; the executor starts it in turn."),
    RunStatus.RUNNING: lazy_gettext("Its process is at work."),
    RunStatus.SUCCEEDED: lazy_gettext("It ended without an error."),
    RunStatus.FAILED: lazy_gettext("It ended with an error; the message says which."),
    RunStatus.TIMED_OUT: lazy_gettext("It took longer than its job allows, and was stopped."),
    RunStatus.KILLED: lazy_gettext("Somebody asked for its end, and nothing of it is left."),
    RunStatus.REFUSED: lazy_gettext("The executor turned it away; the message says why."),
    RunStatus.LOST: lazy_gettext(
        "Its executor was lost after it may have started; how far it came is not known."
    ),
    RunStatus.UNDELIVERED: lazy_gettext("It never started: it reached no executor."),
    RunStatus.CANCELLED: lazy_gettext("It was taken back before it was sent."),
}
