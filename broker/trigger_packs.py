"""Several triggers of one boot in one message: confirmed, returned and redelivered as one.

Each is encoded, and read, by itself, so that one that nobody can read spoils no other.
"""

from collections.abc import Iterator, Sequence

import msgspec

from broker.codec import decode
from broker.errors import Malformed
from broker.messages import Trigger, Triggers

#: Triggers and their bytes in one message; one that is longer travels alone.
PACK_TRIGGERS = 50
PACK_BYTES = 256_000


def packed(encoded: Sequence[bytes]) -> Triggers:
    """Return the message that holds these triggers."""
    return Triggers(triggers=tuple(map(msgspec.Raw, encoded)))


def stretches(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Give the stretches of triggers of these sizes that fit into a message, up to `limit` each."""
    first = total = 0
    for position, size in enumerate(sizes):
        is_full = position - first >= min(limit, PACK_TRIGGERS) or total + size > PACK_BYTES
        if is_full and position > first:
            yield slice(first, position)
            first, total = position, 0
        total += size
    if sizes:
        yield slice(first, len(sizes))


def unpacked(message: Trigger | Triggers, size: int) -> Iterator[tuple[Trigger | Malformed, int]]:
    """Give each trigger, or what is wrong with it, and its bytes; `size` is that of the message."""
    if isinstance(message, Trigger):
        yield message, size
        return
    for one in message.triggers:
        body = bytes(one)
        try:
            yield decode(body, Trigger), len(body)
        except Malformed as error:
            yield error, len(body)
