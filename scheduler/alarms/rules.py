"""Whom a job or an app may have told: the rules for every place where somebody writes it."""

import difflib
from collections.abc import Iterator

from scheduler.alarms.mail_server import LONGEST_EMAIL, is_email
from scheduler.alarms.policy import AlarmTargets
from scheduler.alarms.webhook_style import STYLES
from scheduler.alarms.webhook_url import check_webhook


def problems(targets: AlarmTargets) -> Iterator[str]:
    """Give everything that is wrong with targets, a line each."""
    for email in targets.emails:
        if not is_email(email):
            yield f"expected emails to be addresses, got: {email[:100]!r}"
    if len(",".join(targets.emails)) > LONGEST_EMAIL:
        yield f"expected emails to take up to {LONGEST_EMAIL} characters"
    if targets.webhook:
        try:
            check_webhook(targets.webhook)
        except ValueError as error:
            yield str(error)
    if targets.style and not targets.webhook:
        yield "expected a webhook beside style"
    elif targets.style and targets.style not in STYLES:
        near = difflib.get_close_matches(targets.style, STYLES, 1)
        hint = f", did you mean {near[0]!r}?" if near else f"; expected one of {', '.join(STYLES)}"
        yield f"unknown style {targets.style[:100]!r}{hint}"
