"""Which URLs a webhook may have, and which destinations an operator allows."""

import re
from urllib.parse import urlsplit

from warren.broker.destinations import Destinations, is_never_called, literal
from warren.scheduler.problems import Code, Problem

MAX_LENGTH = 512
MAX_SECRET_LENGTH = 255


class WebhookAllowList(Destinations):
    """Where webhooks may go; anywhere if nothing is listed."""

    setting = "WARREN_WEBHOOK_ALLOW"


EVERYWHERE = WebhookAllowList()


def check_webhook(url: str, field: str = "alarm/webhook") -> None:
    """Raise Problem unless a URL can be a webhook's; judges the URL only.

    A host name is resolved, and its addresses checked, only when an alarm is sent.
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = None
    if not good or len(url) > MAX_LENGTH or re.search(r"[^!-~]", url):
        raise Problem(Code.WEBHOOK, field, got=url[:100])
    if parts.username or parts.password:
        raise Problem(Code.WEBHOOK_USER, field)
    address = literal(parts.hostname or "")
    if address is not None and is_never_called(address):
        raise Problem(Code.WEBHOOK_LINK_LOCAL, field, got=url[:100])


def without_secret(url: str) -> str:
    """Return a webhook's URL without what may be secret: scheme and host only."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}/…"


def is_sound_secret(secret: str) -> bool:
    """Return whether a text can be a robot's secret; an empty one is none."""
    return len(secret) <= MAX_SECRET_LENGTH and all("!" <= sign <= "~" for sign in secret)
