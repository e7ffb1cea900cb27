"""A real SMTP server on 127.0.0.1 that stores e-mails, refuses them, or hangs."""

import ssl
from email import message_from_bytes
from email.message import Message
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from tests.support.ports import free_port


class Mailbox:
    """`refusal`, if set, is the answer to every e-mail; `refused` has those to some recipients.

    `login` is the required user and password.

    With `tls` it speaks TLS from the first byte (`smtps`), or after STARTTLS.
    """

    def __init__(
        self,
        *,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        scheme: str = "smtp",
    ) -> None:
        self.refusal = ""
        self.refused: dict[str, str] = {}
        self.mails: list[Message] = []
        self.envelopes: list[Envelope] = []
        self._login = login
        self._scheme = scheme
        self.port = free_port()
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            authenticator=self._check if login else None,
            auth_required=bool(login),
            auth_require_tls=False,
            ssl_context=tls if scheme == "smtps" else None,
            tls_context=tls if scheme == "smtp+starttls" else None,
            require_starttls=scheme == "smtp+starttls",
        )

    @property
    def url(self) -> str:
        """The value of `WARREN_SMTP_URL` for it."""
        who = "{}:{}@".format(*self._login) if self._login else ""
        return f"{self._scheme}://{who}127.0.0.1:{self.port}?from=warren@example.com"

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: Any
    ) -> str:
        """Answer to one recipient; called by aiosmtpd."""
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 known"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:  # noqa: N802
        """Store one e-mail; called by aiosmtpd."""
        if self.refusal:
            return self.refusal
        assert isinstance(envelope.content, bytes)
        self.envelopes.append(envelope)
        self.mails.append(message_from_bytes(envelope.content))
        return "250 kept"

    def _check(self, _s: Any, _session: Any, _e: Any, _mechanism: str, given: Any) -> AuthResult:
        assert isinstance(given, LoginPassword)
        right = (given.login.decode(), given.password.decode()) == self._login
        return AuthResult(success=right, handled=right)
