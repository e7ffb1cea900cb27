"""Who is notified of a failure, an absence or an end, by the columns of a job and its app.

The rules for targets hold in job files, forms and API alike.
"""

from collections.abc import Iterator

from warren.scheduler.alarms.addresses import (
    MAX_EMAILS_LENGTH,
    MAX_SECRET_LENGTH,
    check_webhook,
    is_email,
    is_sound_secret,
)
from warren.scheduler.alarms.events import WHENS, AlarmTargets, News, RunWebhook, to_text
from warren.scheduler.alarms.message import SIGNED, STYLES, style_of
from warren.scheduler.problems import Code, Problem, Word, found, unknown_word
from warren.sql.alarms.alarms import MAIL, JobRecipients, NewAlarm, WaitingApp


def job_targets(job: JobRecipients, defaults: AlarmTargets) -> AlarmTargets:
    """Return the targets of a job's failures: its own, else its app's, else the default."""
    own = targets_of(job.alarm_email, job.alarm_webhook, job.alarm_style)
    return own or targets_of(job.app_email, job.app_webhook, job.app_style) or defaults


def app_targets(app: WaitingApp, defaults: AlarmTargets) -> AlarmTargets:
    """Return the targets of alarms about an app: its own, else the default."""
    return targets_of(app.alarm_email, app.alarm_webhook, app.alarm_style) or defaults


def targets_of(emails: str | None, webhook: str | None, style: str | None) -> AlarmTargets:
    """Return the targets in the columns of a job or an app."""
    listed = tuple(email for email in (emails or "").split(",") if email)
    return AlarmTargets(emails=listed, webhook=webhook or "", style=style or "")


def webhook_of(url: str | None, when: str | None) -> RunWebhook:
    """Return the run webhook in the columns of a job or an app."""
    return RunWebhook(url=url or "", when=when or "")


def columns_of(alarm: AlarmTargets, webhook: RunWebhook) -> dict[str, str]:
    """Return the values of an app's row for its targets and webhook, by attribute.

    Without a secret, the stored one is kept, unless the webhook takes none.
    """
    is_set = alarm.secret or not takes_secret(alarm)
    secret = {"alarm_secret": alarm.secret} if is_set else {}
    return secret | {
        "alarm_email": ",".join(alarm.emails),
        "alarm_webhook": alarm.webhook,
        "alarm_style": alarm.style,
        "webhook_url": webhook.url,
        "webhook_when": webhook.when,
    }


def alarms_to(
    targets: AlarmTargets,
    news: News,
    subject_key: str,
    *,
    now_ms: int,
    app_id: int,
    job_id: int = 0,
    run_id: int = 0,
) -> list[NewAlarm]:
    """Return one alarm for each target; `subject_key` and target together are stored only once."""
    content = to_text(news)
    return [
        NewAlarm(
            subject_key=subject_key,
            channel=channel,
            target=target,
            content=content,
            created_at=now_ms,
            job_id=job_id,
            app_id=app_id,
            run_id=run_id,
        )
        for channel, target in channels_of(targets)
    ]


def channels_of(targets: AlarmTargets) -> list[tuple[str, str]]:
    """Return the channel and target of each alarm; the channel of a webhook is its style."""
    channels = [(MAIL, email) for email in dict.fromkeys(targets.emails)]
    if targets.webhook:
        channels.append((style_of(targets.webhook, targets.style), targets.webhook))
    return channels


def target_problems(targets: AlarmTargets) -> Iterator[Problem]:
    """Yield everything that is wrong with targets."""
    for email in targets.emails:
        if not is_email(email):
            yield Problem(Code.EMAIL, "alarm/emails", got=email[:100])
    if len(",".join(targets.emails)) > MAX_EMAILS_LENGTH:
        yield Problem(Code.EMAILS_TOO_LONG, "alarm/emails", most=MAX_EMAILS_LENGTH)
    if targets.webhook:
        yield from found(lambda: check_webhook(targets.webhook))
    if targets.style and not targets.webhook:
        yield Problem(Code.STYLE_ALONE, "alarm/style")
    elif targets.style and targets.style not in STYLES:
        yield unknown_word("alarm/style", Word.STYLE, targets.style, STYLES, Code.UNKNOWN_STYLE)

    if targets.secret and not takes_secret(targets):
        yield Problem(Code.SIGNING_ALONE, "alarm/secret", known=", ".join(SIGNED))
    elif not is_sound_secret(targets.secret):
        yield Problem(Code.SIGNING, "alarm/secret", most=MAX_SECRET_LENGTH)


def takes_secret(targets: AlarmTargets) -> bool:
    """Whether the webhook is that of a robot that may require a signature."""
    return bool(targets.webhook) and style_of(targets.webhook, targets.style) in SIGNED


def webhook_problems(webhook: RunWebhook) -> Iterator[Problem]:
    """Yield everything that is wrong with a webhook for ends of runs."""
    if webhook.url:
        yield from found(lambda: check_webhook(webhook.url, "webhook/url"))
    if webhook.when and not webhook.url:
        yield Problem(Code.WHEN_ALONE, "webhook/when")
    elif webhook.when and webhook.when not in WHENS:
        yield unknown_word("webhook/when", Word.WHEN, webhook.when, WHENS)
