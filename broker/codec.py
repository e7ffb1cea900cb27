"""Converts messages to bytes and back, as JSON. Refuses everything but exactly a known message."""

from functools import lru_cache
from typing import Any

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages.values import Message

#: Version of the wire format; messages of other versions are refused.
VERSION = "2"
#: Bytes of a body at most, in both directions.
BODY_LIMIT = 1_000_000
#: Bytes of all headers at most; ours have fewer than 1,000.
HEADER_LIMIT = 8_000

_encoder = msgspec.json.Encoder()


def encode(message: Message) -> bytes:
    """Return the message's bytes.

    Raises:
        Malformed: over BODY_LIMIT bytes, or a text with a lone surrogate.

    """
    name = type(message).__name__
    try:
        body = _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise Malformed(f"cannot encode {name}: {error.reason}") from error
    if len(body) > BODY_LIMIT:
        raise Malformed(f"expected {name} to be at most {BODY_LIMIT} bytes, got: {len(body)}")
    return body


def decode(body: bytes, expect: Any) -> Any:
    """Return the message in `body`, of type `expect`: a message class or a union of some.

    Raises:
        Malformed: empty, over BODY_LIMIT bytes, not UTF-8, not JSON, nested too deeply, or not
            one of the expected messages with each value within its bounds.

    """
    if not 0 < len(body) <= BODY_LIMIT:
        raise Malformed(f"expected body to be 1 to {BODY_LIMIT} bytes, got: {len(body)}")
    try:
        return _decoder(expect).decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"cannot decode message: {error}") from error


@lru_cache(maxsize=64)
def _decoder(expect: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(expect)
