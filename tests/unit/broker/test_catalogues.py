"""Catalogues are cut until they fit into a message, never refused."""

from warren.broker.catalogues import CATALOGUE_BYTES, EncodedCatalogue, catalogue_of
from warren.broker.messages.values import ABOUT_LIMIT, HANDLER_LIMIT, Catalogue, HandlerFacts


def handlers(count: int, *, width: int = 40) -> tuple[HandlerFacts, ...]:
    return tuple(
        HandlerFacts(name=f"h{n}".ljust(width, "x"), about="a" * ABOUT_LIMIT, module="m", line=n)
        for n in range(count)
    )


def test_small_catalogue_is_told_whole() -> None:
    whole = Catalogue(handlers=handlers(3), languages=("shell",), code_version="v1")

    assert catalogue_of(EncodedCatalogue(whole).contents) == whole
    assert EncodedCatalogue(whole).fingerprint == EncodedCatalogue(whole).fingerprint
    assert (
        EncodedCatalogue(whole).fingerprint
        != EncodedCatalogue(Catalogue(handlers=handlers(2))).fingerprint
    )


def test_ten_thousand_handlers_keep_their_names() -> None:
    told = catalogue_of(EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT))).contents)

    assert len(told.handlers) == HANDLER_LIMIT
    assert not told.has_more
    assert len(EncodedCatalogue(told).contents) <= CATALOGUE_BYTES


def test_more_than_fit_say_so() -> None:
    many = catalogue_of(EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT + 1))).contents)
    long = catalogue_of(
        EncodedCatalogue(Catalogue(handlers=handlers(HANDLER_LIMIT, width=255))).contents
    )

    assert (len(many.handlers), many.has_more) == (HANDLER_LIMIT, True)
    assert (len(long.handlers), long.has_more) == (HANDLER_LIMIT // 4, True)
