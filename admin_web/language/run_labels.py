"""Sentences about why a run exists and how it ended."""

from flask_babel import lazy_gettext

from warren.sql.run_status import Kind, RunStatus

CAUSE = {
    Kind.SCHEDULE: lazy_gettext("Triggered by its schedule."),
    Kind.MISFIRE: lazy_gettext("Makes up for missed runs."),
    Kind.MANUAL: lazy_gettext("Triggered by a user."),
    Kind.API: lazy_gettext("Triggered through the API."),
    Kind.RETRY: lazy_gettext("The previous attempt did not succeed."),
    Kind.PARENT: lazy_gettext("Its parent job succeeded."),
    Kind.RERUN: lazy_gettext("Repeats an earlier run for its due time."),
}
RESULT = {
    RunStatus.PLANNED: lazy_gettext("Waiting for its due time or for a free executor."),
    RunStatus.ROUTED: lazy_gettext("An executor was chosen. The trigger is being sent."),
    RunStatus.SENT: lazy_gettext("Waiting at the executor."),
    RunStatus.RUNNING: lazy_gettext("The job is running."),
    RunStatus.SUCCEEDED: lazy_gettext("Finished without errors."),
    RunStatus.FAILED: lazy_gettext("Failed. See the message."),
    RunStatus.TIMED_OUT: lazy_gettext("Stopped because it exceeded its timeout."),
    RunStatus.KILLED: lazy_gettext("Killed. None of its processes is left running."),
    RunStatus.REFUSED: lazy_gettext("The executor refused it. See the message."),
    RunStatus.LOST: lazy_gettext(
        "Its executor was lost. The run may have started; how far it got is unknown."
    ),
    RunStatus.UNDELIVERED: lazy_gettext("Never started: no executor accepted it."),
    RunStatus.CANCELLED: lazy_gettext("Cancelled before it was dispatched."),
}
