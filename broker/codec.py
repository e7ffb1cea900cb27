"""Converts messages and catalogues to JSON and back, and refuses everything else.

Several triggers for one boot can share a message, and are then confirmed, returned and redelivered
together. Each is encoded by itself, so an unreadable one does not affect the others.

No catalogue is refused: a program with too many handlers or very long docstrings still works.
"""

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages import (
    HANDLER_LIMIT,
    Catalogue,
    HandlerFacts,
    Message,
    Trigger,
    Triggers,
    wire_type,
)

#: Version of the wire format; messages of other versions are refused.
VERSION = "2"
#: The largest body, in bytes, in both directions.
BODY_LIMIT = 1_000_000
#: The most bytes of headers; Warren's own have fewer than 1,000.
HEADER_LIMIT = 8_000
_encoder = msgspec.json.Encoder()
#: The largest catalogue, in bytes; the rest of its message needs far less than 100,000.
CATALOGUE_BYTES = 900_000
#: The most characters of a handler's description in a catalogue that has to be cut.
SHORT_ABOUT = 60


def encode(message: Message) -> bytes:
    """Return the message's bytes.

    Raises:
        Malformed: over BODY_LIMIT bytes, or a text with a lone surrogate.

    """
    name = wire_type(type(message))
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
        with _PREPARING:
            decoder = _decoder(expect)
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"cannot decode message: {error}") from error


#: Of types of messages: a thread that decodes one while another prepares its fields ends the
#: process with a segmentation fault in msgspec 0.22.
_PREPARING = threading.Lock()


@lru_cache(maxsize=64)
def _decoder(expect: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(expect)


#: The most triggers in one message, and the most bytes; a longer trigger is sent alone.
MAX_PACK_TRIGGERS = 50
MAX_PACK_BYTES = 256_000


def packed(encoded: Sequence[bytes]) -> Triggers:
    """Return a message with these triggers."""
    return Triggers(triggers=tuple(map(msgspec.Raw, encoded)))


def stretches(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Yield slices of triggers of these sizes; each fits into a message and has at most `limit`."""
    first = total = 0
    for position, size in enumerate(sizes):
        is_full = position - first >= min(limit, MAX_PACK_TRIGGERS) or total + size > MAX_PACK_BYTES
        if is_full and position > first:
            yield slice(first, position)
            first, total = position, 0
        total += size
    if sizes:
        yield slice(first, len(sizes))


def unpacked(message: Trigger | Triggers, size: int) -> Iterator[tuple[Trigger | Malformed, int]]:
    """Yield each trigger, or why it is unreadable, with its size; `size` is the message's."""
    if isinstance(message, Trigger):
        yield message, size
        return
    for raw in message.triggers:
        body = bytes(raw)
        try:
            yield decode(body, Trigger), len(body)
        except Malformed as error:
            yield error, len(body)


class EncodedCatalogue:
    """An encoded catalogue: its bytes, at most CATALOGUE_BYTES, and their fingerprint."""

    __slots__ = ("contents", "fingerprint")

    def __init__(self, catalogue: Catalogue) -> None:
        self.contents = fitted(catalogue)
        self.fingerprint = fingerprint_of(self.contents)


def fitted(catalogue: Catalogue) -> bytes:
    """Return a catalogue as JSON, cut only as much as it takes to fit into a message."""
    catalogue = _with_first(catalogue, HANDLER_LIMIT)
    return next(
        body
        for body in map(msgspec.json.encode, _shortened(catalogue))
        if len(body) <= CATALOGUE_BYTES
    )


def fingerprint_of(contents: bytes) -> str:
    """Return the fingerprint of a catalogue's bytes, 32 hexadecimal digits."""
    return hashlib.sha256(contents).hexdigest()[:32]


def catalogue_of(contents: bytes) -> Catalogue:
    """Return the catalogue in these bytes.

    Raises:
        Malformed: there are too many bytes, or they are not a catalogue.

    """
    if len(contents) > CATALOGUE_BYTES:
        raise Malformed(f"expected a catalogue of {CATALOGUE_BYTES} bytes, got: {len(contents)}")
    try:
        return _catalogue_decoder.decode(contents)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"cannot decode a catalogue: {error}") from error


_catalogue_decoder = msgspec.json.Decoder(Catalogue)


def _shortened(catalogue: Catalogue) -> Iterator[Catalogue]:
    """Yield the catalogue, then shorter and shorter versions of it, without end."""
    yield catalogue
    yield _with_each(catalogue, lambda handler: _with_about(handler, SHORT_ABOUT))
    yield _with_each(catalogue, lambda handler: _with_about(handler, 0))
    yield _with_each(
        catalogue, lambda handler: msgspec.structs.replace(_with_about(handler, 0), schema="")
    )
    named = _with_each(catalogue, lambda handler: HandlerFacts(name=handler.name))
    count = len(named.handlers)
    while True:
        yield _with_first(named, count)
        count //= 2


def _with_each(catalogue: Catalogue, change: Callable[[HandlerFacts], HandlerFacts]) -> Catalogue:
    return msgspec.structs.replace(catalogue, handlers=tuple(map(change, catalogue.handlers)))


def _with_about(handler: HandlerFacts, length: int) -> HandlerFacts:
    return msgspec.structs.replace(handler, about=handler.about[:length])


def _with_first(catalogue: Catalogue, count: int) -> Catalogue:
    has_more = catalogue.has_more or count < len(catalogue.handlers)
    return msgspec.structs.replace(
        catalogue, handlers=catalogue.handlers[:count], has_more=has_more
    )
