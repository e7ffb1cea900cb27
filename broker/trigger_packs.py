"""Several triggers for one boot in one message: confirmed, returned and redelivered together.

Each is encoded and decoded separately, so that an unreadable one does not affect the others.
"""

from collections.abc import Iterator, Sequence

import msgspec

from warren.broker.codec import decode
from warren.broker.errors import Malformed
from warren.broker.messages.to_executor import Trigger, Triggers

#: Triggers in one message at most, and their bytes; a longer trigger is sent alone.
PACK_TRIGGERS = 50
PACK_BYTES = 256_000


def packed(encoded: Sequence[bytes]) -> Triggers:
    """Return a message with these triggers."""
    return Triggers(triggers=tuple(map(msgspec.Raw, encoded)))


def stretches(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Yield slices of triggers of these sizes that fit into a message, at most `limit` each."""
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
    """Yield each trigger, or its error, with its bytes; `size` is that of the message."""
    if isinstance(message, Trigger):
        yield message, size
        return
    for one in message.triggers:
        body = bytes(one)
        try:
            yield decode(body, Trigger), len(body)
        except Malformed as error:
            yield error, len(body)
