"""Where alarms may go: e-mail addresses and the SMTP server, and the URLs of webhooks."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from warren.broker.destinations import Destinations, is_never_called, literal
from warren.scheduler.problems import Code, Problem

#: Longest address that the column holds.
MAX_EMAILS_LENGTH = 255
#: Without what RFC 5322 reserves, apart from dots: such an address may lead elsewhere, or nowhere.
_EMAIL = re.compile(r"[^\s()<>\[\]:;@\\,\"]+@[^\s()<>\[\]:;@\\,\"]+")


class Security(StrEnum):
    """How the connection is encrypted; each value is a URL scheme."""

    NONE = "smtp"
    TLS = "smtps"
    STARTTLS = "smtp+starttls"


_PORTS = {Security.NONE: 25, Security.TLS: 465, Security.STARTTLS: 587}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """An SMTP server, our account there, and the sender of our e-mails; one URL in the settings."""

    host: str
    port: int
    security: Security
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def parse(url: str) -> "MailServer":
        """Read `smtp+starttls://user:password@host:587?from=warren@example.com`.

        User, password and port may be left out. Raises `ValueError`, which never holds the URL.
        """
        parts, port = _split(url)
        if parts.scheme not in tuple(Security):
            raise ValueError(f"expected one of the schemes {', '.join(Security)}")
        if not parts.hostname or parts.path.strip("/") or parts.fragment:
            raise ValueError("expected a host, and no path")
        security = Security(parts.scheme)
        query = parse_qs(parts.query, keep_blank_values=True)
        sender = (query.pop("from", None) or [""])[-1]
        if query:
            raise ValueError(f"unknown parameter {next(iter(query))[:20]!r}; expected from")
        if not is_email(sender):
            raise ValueError("expected ?from= with the address that e-mails come from")
        if bool(parts.username) != bool(parts.password):
            raise ValueError("expected user and password, or neither")
        return MailServer(
            host=parts.hostname,
            port=port or _PORTS[security],
            security=security,
            sender=sender,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )


def is_email(text: str) -> bool:
    """Return whether a text can be an e-mail address."""
    return len(text) <= MAX_EMAILS_LENGTH and bool(_EMAIL.fullmatch(text))


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text may hold a part of the password
        port = 0
    if port == 0:
        raise ValueError("the port is not a number from 1 to 65535") from None
    return parts, port


#: The longest URL of a webhook, and the longest secret of a robot.
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
