"""Alarms and incidents: what people were told, and what is not as expected."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from warren.resources.operation import DEFAULT_LIMIT, PageQuery, Scope, operation

#: The states that people filter alarms by; each covers several statuses.
AlarmState: TypeAlias = Literal["undelivered", "waiting", "held", "delivered", "dismissed"]


class Alarm(msgspec.Struct, kw_only=True, frozen=True):
    """An alarm; `next_try_at` is null if it is no longer tried.

    `cause` is the kind of its event; `answer` is what the receiver answered.
    """

    id: int
    app: str
    job: str
    run_id: int | None
    cause: str
    channel: str
    target: str
    status: str
    created_at: datetime
    next_try_at: datetime | None
    tries: int
    sent_at: datetime | None
    answer: str
    error: str

    @property
    def is_open(self) -> bool:
        """Whether it is still to be sent for the first time."""
        return self.status in {"NEW", "READY"}


class AlarmsQuery(PageQuery, kw_only=True):
    """Which alarms to list: unsent ones, all, or those in a state; of one job with `job_id`."""

    all: bool = False
    state: AlarmState | None = None
    job_id: int | None = None


class TestBody(msgspec.Struct, kw_only=True):
    """Where to send a test: a job's targets, or the given ones on behalf of a job or an app.

    A job is given as `job`, its NAME or APP/NAME, or as `job_id`. Without a job and an app, only
    administrators may send it. If it would go nowhere else, it goes to the `default_…` targets.
    """

    job: str | None = None
    job_id: int | None = None
    app_id: int | None = None
    emails: list[str] = []
    webhook: str = ""
    style: str = ""
    webhook_url: str = ""
    default_emails: list[str] = []
    default_webhook: str = ""


class TestAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """The tests that were sent, with the result that each had after a few seconds."""

    items: list[Alarm]


class AlarmsBody(msgspec.Struct, kw_only=True):
    """Which undelivered alarms are meant: those of a job, given as NAME or APP/NAME; or all."""

    job: str | None = None


class AlarmCount(msgspec.Struct, kw_only=True, frozen=True):
    """How many alarms it concerned."""

    count: int


class Incident(msgspec.Struct, kw_only=True, frozen=True):
    """An incident; `due_at` is the due time or the instant that broke the rule.

    Its status is OPEN, ACKNOWLEDGED or CLOSED.
    """

    id: int
    app: str
    job: str
    rule: str
    expected: str
    status: str
    due_at: datetime
    opened_at: datetime
    closed_at: datetime | None
    closed_by: str
    acked_at: datetime | None
    acked_by: str
    ack_note: str
    ack_until_at: datetime | None


class IncidentsQuery(PageQuery, kw_only=True):
    """Which incidents to list: open ones, or all."""

    all: bool = False


class AckBody(msgspec.Struct, kw_only=True):
    """A note for others, and until when the incident stays silent; null = until it closes."""

    note: str = ""
    until: str | None = None


@operation("GET", "/alarms", Scope.READ, query=AlarmsQuery)
def list_alarms(
    *,
    all: bool = False,  # noqa: A002 - what the parameter is called
    state: AlarmState | None = None,
    job_id: int | None = None,
    limit: int | None = DEFAULT_LIMIT,
) -> list[Alarm]:
    """List alarms, newest first."""


@operation("GET", "/alarms/<id:alarm_id>", Scope.READ)
def show_alarm(alarm: int | Alarm) -> Alarm:
    """Show an alarm."""


@operation("POST", "/alarms/test", Scope.OPERATE, body=TestBody)
def send_test_alarms(
    *,
    job: str | None = None,
    emails: Sequence[str] = (),
    webhook: str = "",
    style: str = "",
    default_emails: Sequence[str] = (),
    default_webhook: str = "",
) -> TestAnswer:
    """Send a test alarm now, once, as a scheduler sends alarms."""


@operation("POST", "/alarms/resend", Scope.OPERATE, body=AlarmsBody)
def resend_alarms(*, job: str | None = None) -> AlarmCount:
    """Send undelivered alarms again now, to their original targets."""


@operation("POST", "/alarms/dismiss", Scope.OPERATE, body=AlarmsBody)
def dismiss_alarms(*, job: str | None = None) -> AlarmCount:
    """Give up undelivered alarms, so that no page warns about them."""


@operation("GET", "/incidents", Scope.READ, query=IncidentsQuery)
def list_incidents(
    *,
    all: bool = False,  # noqa: A002 - what the parameter is called
    limit: int | None = DEFAULT_LIMIT,
) -> list[Incident]:
    """List incidents, newest first."""


@operation("GET", "/incidents/<id:incident_id>", Scope.READ)
def show_incident(incident: int | Incident) -> Incident:
    """Show an incident."""


@operation("POST", "/incidents/<id:incident_id>/ack", Scope.OPERATE, body=AckBody)
def acknowledge_incident(
    incident: int | Incident, *, note: str = "", until: datetime | str | None = None
) -> Incident:
    """Acknowledge an open incident, so that no more reminders are sent."""
