"""Opens messages from schedulers to executors, and signs messages that no executor would send."""

import hmac
import struct
from collections.abc import Iterable, Mapping

from tests.support.cluster import APP, SECRET
from warren.broker.codec import VERSION, unpacked
from warren.broker.messages import Trigger, Triggers
from warren.broker.signing import AppKeys, Direction, Sealer, derived_key
from warren.broker.transport import Delivery
from warren.scheduler.node import SchedulerNode
from warren.sql.registry.cluster import cluster_id


def triggers_in(
    deliveries: Iterable[Delivery], node: SchedulerNode, address: str, *, app: str = APP
) -> list[Trigger]:
    """Return the triggers in a scheduler's deliveries to an executor."""
    context = node.roles.context
    sealer = Sealer(AppKeys.derived(app, SECRET), context.database.read(cluster_id), context.now_ms)
    found: list[Trigger] = []
    for delivery in deliveries:
        message = sealer.open(
            delivery,
            expect=Trigger | Triggers,
            direction=Direction.TO_EXECUTOR,
            app=app,
            address=address,
        )
        for trigger, _size in unpacked(message, 0):
            assert isinstance(trigger, Trigger), trigger
            found.append(trigger)
    return found


def mac(headers: Mapping[str, str], routing_key: str, body: bytes) -> str:
    """Return an executor's signature of any body, made as `broker/signing.py` describes it."""
    app, address = headers["app"], headers["address"]
    [key] = AppKeys.derived(app, SECRET).of(app)
    key = derived_key(key, f"{VERSION}/{Direction.FROM_EXECUTOR}/{address}")
    texts = (headers["type"], headers["cluster"], routing_key, headers["expiry"], app, address)
    fields = [text.encode() for text in texts]
    lengths = struct.pack(f">{len(fields)}I", *map(len, fields))
    return hmac.digest(key, lengths + b"".join(fields) + body, "sha256").hex()
