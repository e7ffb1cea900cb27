"""Who is notified of failures and ends, and how often: values of jobs, apps and settings."""

from dataclasses import dataclass

from warren.scheduler.alarms.channels.mail_server import MailServer
from warren.scheduler.alarms.channels.webhook_allow_list import EVERYWHERE, WebhookAllowList


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmTargets:
    """Where an alarm goes; `style` is that of the webhook's body, "" = by its host."""

    emails: tuple[str, ...] = ()
    webhook: str = ""
    style: str = ""

    def __bool__(self) -> bool:
        return bool(self.emails or self.webhook)


NOBODY = AlarmTargets()
#: After which ends a webhook is called; "" is the first.
ALWAYS, SUCCESS, FAILURE = WHENS = ("always", "success", "failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWebhook:
    """The webhook for ends of runs: a URL, and which ends it is called for."""

    url: str = ""
    when: str = ""

    def __bool__(self) -> bool:
        return bool(self.url)

    def hears(self, *, success: bool) -> bool:
        """Return whether it is called for a success, or for a failure."""
        return bool(self.url) and self.when in ("", ALWAYS, SUCCESS if success else FAILURE)


NO_WEBHOOK = RunWebhook()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmPolicy:
    """How alarms are sent.

    `defaults` are the targets for jobs and apps without their own. Without a `mail_server` e-mails
    wait for a scheduler that has one. `per_hour` alarms of a job go to one target in an hour at
    most. An app with enabled jobs and without an executor for `absence_seconds` is an alarm.
    Webhooks go only where `webhook_allow` allows. `console_url` is the start of links to runs;
    `timezone` is for jobs that name none. `heartbeat_url` is called while the cluster works.
    """

    defaults: AlarmTargets = NOBODY
    mail_server: MailServer | None = None
    webhook_allow: WebhookAllowList = EVERYWHERE
    per_hour: int = 10
    absence_seconds: float = 60.0
    console_url: str = ""
    timezone: str = "UTC"
    heartbeat_url: str = ""
