"""The SMTP server for e-mails, parsed from one URL in the settings."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

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
    """An SMTP server, our account there, and the sender of our e-mails."""

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
