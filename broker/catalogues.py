"""Catalogues as they travel: as bytes with a fingerprint, cut until they fit into a message.

None is refused: a program with too many handlers, or with a book for a docstring, works as others.
"""

import hashlib
from collections.abc import Callable, Iterator

import msgspec

from warren.broker.errors import Malformed
from warren.broker.messages.catalogue import HANDLER_LIMIT, Catalogue, HandlerFacts

#: Bytes of a catalogue at most; the rest of its message needs far less than 100,000.
CATALOGUE_BYTES = 900_000
#: Characters to which what is said about handlers is cut first.
SHORT_ABOUT = 60


class Told:
    """A catalogue as it is told: its bytes, at most CATALOGUE_BYTES, and their fingerprint."""

    __slots__ = ("contents", "fingerprint")

    def __init__(self, catalogue: Catalogue) -> None:
        self.contents = fitted(catalogue)
        self.fingerprint = fingerprint_of(self.contents)


def fitted(catalogue: Catalogue) -> bytes:
    """Return a catalogue as JSON that fits into a message, cut as little as it takes."""
    catalogue = _with_first(catalogue, HANDLER_LIMIT)
    return next(
        body
        for body in map(msgspec.json.encode, _shorter_and_shorter(catalogue))
        if len(body) <= CATALOGUE_BYTES
    )


def fingerprint_of(contents: bytes) -> str:
    """Return what identifies a catalogue's bytes."""
    return hashlib.sha256(contents).hexdigest()[:32]


def catalogue_of(contents: bytes) -> Catalogue:
    """Return the catalogue in these bytes.

    Raises:
        Malformed: they are too many, or no catalogue.

    """
    if len(contents) > CATALOGUE_BYTES:
        raise Malformed(f"expected a catalogue of {CATALOGUE_BYTES} bytes, got: {len(contents)}")
    try:
        return _decoder.decode(contents)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"cannot decode a catalogue: {error}") from error


_decoder = msgspec.json.Decoder(Catalogue)


def _shorter_and_shorter(catalogue: Catalogue) -> Iterator[Catalogue]:
    yield catalogue
    yield _with_each(catalogue, lambda one: _with_about(one, SHORT_ABOUT))
    yield _with_each(catalogue, lambda one: _with_about(one, 0))
    named = _with_each(catalogue, lambda one: HandlerFacts(name=one.name))
    count = len(named.handlers)
    while True:
        yield _with_first(named, count)
        count //= 2


def _with_each(catalogue: Catalogue, change: Callable[[HandlerFacts], HandlerFacts]) -> Catalogue:
    return msgspec.structs.replace(catalogue, handlers=tuple(map(change, catalogue.handlers)))


def _with_about(handler: HandlerFacts, most: int) -> HandlerFacts:
    return msgspec.structs.replace(handler, about=handler.about[:most])


def _with_first(catalogue: Catalogue, count: int) -> Catalogue:
    has_more = catalogue.has_more or count < len(catalogue.handlers)
    return msgspec.structs.replace(
        catalogue, handlers=catalogue.handlers[:count], has_more=has_more
    )
