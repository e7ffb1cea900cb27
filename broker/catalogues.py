"""Catalogues in their encoded form: bytes with a fingerprint, cut until they fit into a message.

No catalogue is refused: a program with too many handlers or very long docstrings still works.
"""

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages.values import HANDLER_LIMIT, Catalogue, HandlerFacts

#: The largest catalogue, in bytes; the rest of its message needs far less than 100,000.
CATALOGUE_BYTES = 900_000
#: The most characters of a handler's description in a catalogue that has to be cut.
SHORT_ABOUT = 60


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
        return _decoder.decode(contents)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"cannot decode a catalogue: {error}") from error


_decoder = msgspec.json.Decoder(Catalogue)


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
