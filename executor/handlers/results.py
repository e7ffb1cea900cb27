"""A run's result: what its handler returned, as JSON."""

import numbers
from typing import Any

import msgspec

from warren.broker.messages.values import MESSAGE_LIMIT, RESULT_LIMIT
from warren.broker.reasons.codes import Why, Words
from warren.executor.handlers.outcomes import clean, text_of


def message_and_result(value: object) -> tuple[Words, str]:
    """Return the message and the result of what a handler returned; both are empty for None.

    The message is its text. A result of more than RESULT_LIMIT characters is left out, and the
    message says so, unless the message is cut too.

    Raises:
        NoText: the value cannot be turned into text.

    """
    if value is None:
        return "", ""
    message, result = text_of(value), _as_json(value)
    if len(result) <= RESULT_LIMIT:
        return message, result
    if len(message) >= MESSAGE_LIMIT:
        return message, ""
    return Why.NOTED(words=message, notes=(Why.RESULT_TOO_LONG(n=f"{len(result):,}"),)), ""


def _as_json(value: object) -> str:
    try:
        return _encode(clean(value) if isinstance(value, str) else value).decode()
    except Exception:  # noqa: BLE001 - cycles, lone surrogates, whatever the value's own code raises
        return _encode(clean(str(value))).decode()


def _plain(value: object) -> Any:
    """Return a plain value for an object of a type that msgspec does not know."""
    dump = getattr(value, "model_dump", None)  # pydantic's
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return clean(str(value))


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
