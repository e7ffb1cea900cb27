"""Decoders of types that are known only when something is decoded."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_PREPARING = threading.Lock()
_cached: Callable[[Any], Any] = cache(msgspec.json.Decoder)


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type; from then on any thread may decode or convert to the type.

    msgspec 0.22 shows other threads a type before it has prepared its fields; one that decoded it
    meanwhile ended the process with a segmentation fault.

    Raises:
        TypeError: msgspec does not support the type.

    """
    with _PREPARING:
        decoder: msgspec.json.Decoder[T] = _cached(kind)
    return decoder
