"""Alarms by e-mail, through one SMTP server."""

import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any

from warren.scheduler.alarms.addresses import MailServer, Security
from warren.scheduler.alarms.message import Message
from warren.scheduler.alarms.sender import SEND_SECONDS, Deadline, RefusedForGood
from warren.sql.models import Alarm

#: How long the server may be silent.
SILENCE_SECONDS = 10.0
_FOR_GOOD = range(500, 600)


class Mailer:
    """Sends each alarm over a separate connection.

    Args:
        server: the mail server and its account.
        domain: for message ids; the cluster's id, so that a duplicate has the same message id.
        send_seconds: how long one e-mail may take in all.
        silence_seconds: how long the server may be silent.

    """

    def __init__(
        self,
        server: MailServer,
        *,
        domain: str,
        send_seconds: float = SEND_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._server = server
        self._domain = domain
        self._send_seconds = send_seconds
        self._silence_seconds = silence_seconds

    def send(self, alarm: Alarm, message: Message) -> str:
        """Send one e-mail and return the server's answer to it.

        Raises OSError (which includes smtplib's errors) or ValueError.
        """
        mail = self._mail(alarm, message)
        with Deadline(self._send_seconds) as deadline, self._connected(deadline.watch) as smtp:
            smtp.send_message(mail)
            return f"{self._server.host} answered: {smtp.accepted}"

    def check(self) -> None:
        """Connect and sign in, or raise OSError."""
        with Deadline(self._send_seconds) as deadline, self._connected(deadline.watch) as smtp:
            smtp.noop()

    def _mail(self, alarm: Alarm, message: Message) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self._server.sender
        mail["To"] = alarm.target
        mail["Subject"] = message.subject
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<alarm-{alarm.id}@{self._domain}>"
        # No out-of-office replies to an unread mailbox.
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{message.text}\n")
        return mail

    @contextmanager
    def _connected(self, watch: Callable[[socket.socket], None]) -> Iterator["_WatchedSmtp"]:
        with _in_words(), closing(self._connect(watch)) as smtp:
            if self._server.security is Security.STARTTLS:
                smtp.starttls(context=ssl.create_default_context())
            if self._server.user:
                smtp.login(self._server.user, self._server.password)
            yield smtp
            with suppress(OSError):  # the e-mail is accepted, so this answer does not matter
                smtp.putcmd("QUIT")

    def _connect(self, watch: Callable[[socket.socket], None]) -> "_WatchedSmtp":
        server = self._server
        if server.security is not Security.TLS:
            return _WatchedSmtp(watch, server.host, server.port, timeout=self._silence_seconds)
        context = ssl.create_default_context()
        return _WatchedSmtps(
            watch, server.host, server.port, timeout=self._silence_seconds, context=context
        )


@contextmanager
def _in_words() -> Iterator[None]:
    """Raise the server's refusals as OSError with its text; smtplib's are tuples."""
    try:
        yield
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()))
        raise _refusal(code)(f"the recipient was refused: {code} {_text(words)}") from error
    except smtplib.SMTPDataError as error:
        answer = f"{error.smtp_code} {_text(error.smtp_error)}"
        raise _refusal(error.smtp_code)(f"the e-mail was refused: {answer}") from error
    except smtplib.SMTPResponseException as error:
        raise OSError(f"{error.smtp_code} {_text(error.smtp_error)}") from error


def _refusal(code: int) -> type[OSError]:
    """Return the error for a server's answer about one e-mail: 5xx is permanent.

    An answer about our account, our address or the connection is not, because it may be fixed.
    """
    return RefusedForGood if code in _FOR_GOOD else OSError


class _WatchedSmtp(smtplib.SMTP):
    """Passes its socket to `watch` before the first byte; `accepted` is the answer to an e-mail."""

    accepted = ""

    def __init__(self, watch: Callable[[socket.socket], None], *args: Any, **options: Any) -> None:
        self._watch = watch
        super().__init__(*args, **options)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        connection: socket.socket = super()._get_socket(host, port, timeout)  # type: ignore[misc]
        self._watch(connection)
        return connection

    def data(self, msg: Any) -> tuple[int, bytes]:
        code, words = super().data(msg)
        self.accepted = f"{code} {_text(words)}"
        return code, words


class _WatchedSmtps(smtplib.SMTP_SSL, _WatchedSmtp):
    """The same with TLS from the first byte: SMTP_SSL asks the next class for its socket."""

    def __init__(self, watch: Callable[[socket.socket], None], *args: Any, **options: Any) -> None:
        self._watch = watch
        smtplib.SMTP_SSL.__init__(self, *args, **options)


def _text(words: bytes | str) -> str:
    return words.decode(errors="replace") if isinstance(words, bytes) else words
