"""Where a job's alarms go, and test alarms to these targets."""

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from flask import abort, flash, request
from flask_babel import gettext, lazy_gettext
from sqlalchemy.orm import Session

from warren.admin_web.forms.console_form import ConsoleForm
from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import visitor
from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.alarms.events import NO_WEBHOOK, NOBODY, AlarmTargets, RunWebhook
from warren.scheduler.alarms.targets import channels_of, job_targets, targets_of
from warren.scheduler.commands.alarms.alarm_commands import AlarmCommands
from warren.scheduler.problems import Problem, Refused
from warren.scheduler.views.to_json import shown_target
from warren.sql.alarms import alarms
from warren.sql.alarms.alarm_listing import ListedAlarm
from warren.sql.alarms.alarms import MAIL, RUN_END, AlarmStatus
from warren.sql.models import App, Job


class JobTarget(NamedTuple):
    """A target of a job's alarms, or of its webhook calls when runs end."""

    channel: str
    target: str
    is_of_app: bool

    @property
    def shown(self) -> str:
        """The target without what may be secret."""
        return self.target if self.channel == MAIL else without_secret(self.target)

    @property
    def key(self) -> str:
        """What a button sends to name this target, because an app's URL is not for everybody."""
        return hashlib.sha256(f"{self.channel} {self.target}".encode()).hexdigest()[:16]

    def parts(self) -> tuple[AlarmTargets, RunWebhook]:
        """Return the target as commands take it."""
        if self.channel == RUN_END:
            return NOBODY, RunWebhook(url=self.target)
        if self.channel == MAIL:
            return AlarmTargets(emails=(self.target,)), NO_WEBHOOK
        return AlarmTargets(webhook=self.target, style=self.channel), NO_WEBHOOK


def read_targets(session: Session, job_id: int) -> list[JobTarget]:
    """Return a job's targets: its own, else its app's; the cluster's are not known here."""
    of_job = alarms.job_targets(session, [job_id])[job_id]
    own = targets_of(of_job.alarm_email, of_job.alarm_webhook, of_job.alarm_style)
    targets = [
        JobTarget(channel, target, not own)
        for channel, target in channels_of(job_targets(of_job, NOBODY))
    ]
    url = session.get_one(Job, job_id).webhook_url
    if called := url or session.get_one(App, of_job.app_id).webhook_url:
        targets.append(JobTarget(RUN_END, called, not url))
    return targets


#: The targets with a button beside them, by the names of their form fields.
TESTED = ("emails", "webhook", "webhook_url")
#: The name of these buttons.
BUTTON = "test"
_NOTHING = lazy_gettext("Enter a target first.")
Test = Callable[[AlarmCommands], list[int]]
TypedTest = Callable[[AlarmCommands, AlarmTargets, RunWebhook], list[int]]


class AlarmTests:
    """Sends test alarms on behalf of the visitor."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    def send(self, test: Test) -> None:
        """Send tests, and flash the result of each.

        Raises:
            Refused: a test cannot be sent.

        """
        commands = self._services.commands(visitor().actor).alarms
        for alarm in commands.wait_for_tests(test(commands), self._services.test_wait_seconds):
            flash(_result_text(alarm), "message" if alarm.status == AlarmStatus.SENT else "error")

    def send_typed(
        self, form: ConsoleForm, targets: AlarmTargets, webhook: RunWebhook, send: TypedTest
    ) -> Iterable[Problem]:
        """Test the target typed beside the button that was pressed; return why not, if refused."""
        field = request.form.get(BUTTON, "")
        if field not in TESTED:
            abort(400)
        targets, webhook = _typed(field, targets, webhook)
        if not targets and not webhook:
            form[field].errors = (str(_NOTHING),)
            return ()
        try:
            self.send(lambda commands: send(commands, targets, webhook))
        except Refused as refused:
            return refused.problems
        return ()


def _typed(
    field: str, targets: AlarmTargets, webhook: RunWebhook
) -> tuple[AlarmTargets, RunWebhook]:
    """Return the targets in a form that the button beside a field tests."""
    if field == "emails":
        return AlarmTargets(emails=targets.emails), NO_WEBHOOK
    if field == "webhook":
        return AlarmTargets(webhook=targets.webhook, style=targets.style), NO_WEBHOOK
    return NOBODY, RunWebhook(url=webhook.url)


def _result_text(test: ListedAlarm) -> str:
    target = shown_target(test)
    if test.status == AlarmStatus.SENT:
        answer = test.answer or ""
        return str(
            gettext("Test delivered to %(target)s: %(answer)s", target=target, answer=answer)
        )
    if test.status == AlarmStatus.GIVEN_UP:
        error = test.error or ""
        return str(
            gettext("Test not delivered to %(target)s: %(error)s", target=target, error=error)
        )
    return str(
        gettext(
            "No answer from %(target)s yet. See the page Alarms for the outcome.", target=target
        )
    )
