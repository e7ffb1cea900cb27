"""Alarms and webhook events, and their targets, as values.

Events are stored in the database until they are sent.
"""

from dataclasses import dataclass, field

import msgspec

from warren.scheduler.alarms.addresses import EVERYWHERE, MailServer, WebhookAllowList
from warren.sql.run_status import RunStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmTargets:
    """Where an alarm goes; `style` is the format of the webhook's body, "" = by its host.

    `secret` is given to be stored, and signs what goes to the webhook; what is stored is not here.
    """

    emails: tuple[str, ...] = ()
    webhook: str = ""
    style: str = ""
    secret: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.emails or self.webhook)


NO_TARGETS = AlarmTargets()
#: After which ends a webhook is called; "" is the first.
ALWAYS, SUCCESS, FAILURE = WHENS = ("always", "success", "failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWebhook:
    """The webhook for ends of runs: a URL, and which ends it is called for."""

    url: str = ""
    when: str = ""

    def __bool__(self) -> bool:
        return bool(self.url)

    def hears(self, status: RunStatus) -> bool:
        """Return whether it is called for a due time that ended so.

        One that was skipped is neither a success nor a failure.
        """
        kinds = {RunStatus.SUCCEEDED: SUCCESS, RunStatus.SKIPPED: ALWAYS}
        return bool(self.url) and self.when in ("", ALWAYS, kinds.get(status, FAILURE))


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

    defaults: AlarmTargets = NO_TARGETS
    mail_server: MailServer | None = None
    webhook_allow: WebhookAllowList = EVERYWHERE
    per_hour: int = 10
    absence_seconds: float = 60.0
    console_url: str = ""
    timezone: str = "UTC"
    heartbeat_url: str = ""


#: Characters that are kept of a run's message, and of the end of its log.
MESSAGE_LENGTH = 2_000
TAIL_LENGTH = 2_000


class _News(msgspec.Struct, frozen=True, kw_only=True, tag_field="about", tag=str.lower):
    app: str


class Failure(_News, frozen=True, kw_only=True):
    """A tick of a job failed for good. Instants are epoch milliseconds; `timezone` the job's."""

    job: str
    run_id: int
    scheduled_at: int
    finished_at: int
    timezone: str
    status: str
    message: str
    address: str
    attempts: int
    shard: str
    log_tail: str


class Overdue(_News, frozen=True, kw_only=True):
    """Too many runs of a job are overdue; its due times are skipped from `skipped_from` on."""

    job: str
    timezone: str
    overdue: int
    skipped_from: int


class Missed(_News, frozen=True, kw_only=True):
    """Due times of a job from `first_at` on are skipped, because they could not be sent in time.

    Instants are epoch milliseconds; `why` says what happened, `timezone` is the job's. More of the
    same outage may be recorded later.
    """

    job: str
    timezone: str
    count: int
    first_at: int
    last_at: int
    why: str


class RefusedCall(_News, frozen=True, kw_only=True, tag="call"):
    """A run has called another job of its app, and nothing runs; `message` says why.

    `number` counts the calls of a run from 1 on.
    """

    job: str
    run_id: int
    called: str
    number: int
    message: str


class IncidentNews(_News, frozen=True, kw_only=True, tag="incident"):
    """A job does not do what is expected of it, or has recovered.

    `state` is opened, reminder or closed. `due_at` is the due time or the instant that broke the
    rule; instants are epoch milliseconds, 0 = not yet. `note` says why it closed.
    """

    job: str
    timezone: str
    incident_id: int
    rule: str
    expected: str
    state: str
    due_at: int
    opened_at: int
    closed_at: int = 0
    note: str = ""


class Absence(_News, frozen=True, kw_only=True):
    """No executor of an app has taken runs for `seconds`."""

    seconds: int
    jobs: int


class Return(_News, frozen=True, kw_only=True):
    """An app reported absent at `since` has an executor again."""

    since: int


class Unhealthy(_News, frozen=True, kw_only=True, tag="ailing"):
    """An executor has reported health issues for `seconds`."""

    address: str
    health_issues: tuple[str, ...] = msgspec.field(name="ailments")
    seconds: int


class SchedulerUnwell(_News, frozen=True, kw_only=True, tag="scheduler"):
    """A scheduler has had problems of its own for `seconds`.

    `servers` are those of the database that have been replaced and can be written.
    """

    node: str
    problems: tuple[str, ...]
    servers: tuple[str, ...] = ()
    seconds: int


class CalendarEnding(_News, frozen=True, kw_only=True, tag="calendar"):
    """A calendar ends on `until`, where jobs that use it stop; `names` are some of them.

    `jobs` is how many of the app use it.
    """

    calendar: str
    until: str
    jobs: int
    names: tuple[str, ...]


class NewEpoch(_News, frozen=True, kw_only=True, tag="epoch"):
    """The counter of run ids had gone back to `found_id`, and continues at `next_id` since `at`."""

    at: int
    cause: str
    told_by: str
    found_id: int
    next_id: int


class Summary(_News, frozen=True, kw_only=True):
    """Alarms of one job that were held back; "" = of the app itself. `run_ids`: the last few."""

    job: str
    count: int
    first_at: int
    last_at: int
    run_ids: tuple[int, ...]


class Trial(_News, frozen=True, kw_only=True, tag="test"):
    """A test of a target by a person; `app` and `job` are "" if the target belongs to none."""

    job: str
    who: str
    at: int


class TickNews(_News, frozen=True, kw_only=True, tag="ended"):
    """A tick of a job has ended, with success or not.

    `run_id` is the run that decided the end, `first_run_id` its first attempt. Instants are epoch
    milliseconds. `result` is what its handler returned, as JSON; "" = nothing.
    """

    job: str
    run_id: int
    first_run_id: int
    kind: str
    status: str
    is_success: bool
    scheduled_at: int
    finished_at: int
    message: str
    address: str
    result: str = ""


News = (
    Failure
    | Overdue
    | Missed
    | RefusedCall
    | IncidentNews
    | Absence
    | Return
    | Unhealthy
    | SchedulerUnwell
    | CalendarEnding
    | NewEpoch
    | Summary
    | Trial
    | TickNews
)

_decoder: msgspec.json.Decoder[News] = msgspec.json.Decoder(News)


def to_text(news: News) -> str:
    """Return an event as the text that is stored."""
    return msgspec.json.encode(news).decode()


def from_text(text: str) -> News:
    """Return the event of a stored text.

    Raises:
        ValueError: the text was changed in the database.

    """
    news: News = _decoder.decode(text)
    return news


def kind_of(text: str) -> str:
    """Return the kind of a stored text's event, such as "failure"; "" if it was changed."""
    try:
        return str(from_text(text).__struct_config__.tag)
    except ValueError:
        return ""


def bare(news: Failure) -> Failure:
    """Return a failure without its texts, for counting only."""
    return msgspec.structs.replace(news, message="", log_tail="")
