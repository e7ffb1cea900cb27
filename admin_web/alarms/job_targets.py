"""Where the alarms of a job go, as its page shows it."""

import hashlib
from typing import NamedTuple

from sqlalchemy.orm import Session

from warren.scheduler.alarms.channels.webhook_url import without_secret
from warren.scheduler.alarms.policy import NO_WEBHOOK, NOBODY, AlarmTargets, RunWebhook
from warren.scheduler.alarms.targets import channels_of, job_targets, targets_of
from warren.sql.alarms import recipients
from warren.sql.alarms.alarms import MAIL, RUN_END
from warren.sql.models import App, Job


class JobTarget(NamedTuple):
    """A target of a job's alarms, or of the calls at the ends of its runs."""

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
    """Return the targets of a job: its own, else its app's; the cluster's are not known here."""
    found = recipients.job_targets(session, [job_id])[job_id]
    own = targets_of(found.alarm_email, found.alarm_webhook, found.alarm_style)
    targets = [
        JobTarget(channel, target, not own)
        for channel, target in channels_of(job_targets(found, NOBODY))
    ]
    url = session.get_one(Job, job_id).webhook_url
    if called := url or session.get_one(App, found.app_id).webhook_url:
        targets.append(JobTarget(RUN_END, called, not url))
    return targets
