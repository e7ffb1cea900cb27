"""Turns pika's errors into short reasons why a connection could not be made or was lost."""

import ssl
from collections.abc import Iterator

import pika.exceptions  # type: ignore[import-untyped]

#: The reply code for a missing queue or exchange.
NOT_FOUND = 404

_WORDS: dict[type[BaseException], str] = {
    pika.exceptions.ProbableAuthenticationError: "access refused: wrong user or password",
    pika.exceptions.ProbableAccessDeniedError: (
        "access refused: virtual host not found, or not for this user"
    ),
    pika.exceptions.AMQPHeartbeatTimeout: "no heartbeat from the broker",
    pika.exceptions.ConnectionBlockedTimeout: "blocked by the broker for too long",
    pika.exceptions.StreamLostError: "connection lost",
    ConnectionRefusedError: "connection refused: nothing listens there",
    TimeoutError: "no answer in time",
}


def reason_of(error: BaseException) -> str:
    """Return why a connection could not be made or was lost, without the password."""
    for cause in _causes(error):
        text = _explain(cause)
        if text:
            return text
    return _one_line(f"{type(error).__name__} {error}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes of one of pika's errors, deepest first."""
    nested = [*getattr(error, "exceptions", ()), getattr(error, "exception", None)]
    for inner in [*nested, *error.args]:
        if isinstance(inner, BaseException):
            yield from _causes(inner)
    yield error


def _explain(error: BaseException) -> str:
    if type(error) in _WORDS:
        return _WORDS[type(error)]
    match error:
        case pika.exceptions.ConnectionClosed() | pika.exceptions.ChannelClosed():
            return _one_line(f"{error.reply_code} {error.reply_text}")
        case ssl.SSLError():
            return _one_line(f"TLS failed: {getattr(error, 'reason', None) or error.strerror}")
        case OSError():
            return _one_line(error.strerror or str(error))
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
