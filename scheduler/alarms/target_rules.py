"""Rules for the targets of alarms and webhooks, in job files, forms and API alike."""

from collections.abc import Iterator

from warren.scheduler.alarms.channels.mail_server import LONGEST_EMAIL, is_email
from warren.scheduler.alarms.channels.webhook_style import STYLES
from warren.scheduler.alarms.channels.webhook_url import check_webhook
from warren.scheduler.alarms.events import WHENS, AlarmTargets, RunWebhook
from warren.scheduler.problems import Code, Problem, Word, found, unknown_word


def problems(targets: AlarmTargets) -> Iterator[Problem]:
    """Yield everything that is wrong with targets."""
    for email in targets.emails:
        if not is_email(email):
            yield Problem(Code.EMAIL, "alarm/emails", got=email[:100])
    if len(",".join(targets.emails)) > LONGEST_EMAIL:
        yield Problem(Code.EMAILS_TOO_LONG, "alarm/emails", most=LONGEST_EMAIL)
    if targets.webhook:
        yield from found(lambda: check_webhook(targets.webhook))
    if targets.style and not targets.webhook:
        yield Problem(Code.STYLE_ALONE, "alarm/style")
    elif targets.style and targets.style not in STYLES:
        yield unknown_word("alarm/style", Word.STYLE, targets.style, STYLES, Code.UNKNOWN_STYLE)


def webhook_problems(webhook: RunWebhook) -> Iterator[Problem]:
    """Yield everything that is wrong with a webhook for ends of runs."""
    if webhook.url:
        yield from found(lambda: check_webhook(webhook.url, "webhook/url"))
    if webhook.when and not webhook.url:
        yield Problem(Code.WHEN_ALONE, "webhook/when")
    elif webhook.when and webhook.when not in WHENS:
        yield unknown_word("webhook/when", Word.WHEN, webhook.when, WHENS)
