"""An executor's heartbeat as the registry keeps it."""

import msgspec

from broker.messages import Heartbeat
from sql import presence


def registration(beat: Heartbeat, now_ms: int) -> presence.Beat:
    """Return a heartbeat as the registry keeps it."""
    load = msgspec.to_builtins(beat.load) | {"handlers": beat.handlers}
    return presence.Beat(
        group=presence.EXECUTOR,
        key=beat.app,
        address=beat.address,
        boot_id=beat.boot_id,
        beat_at=now_ms,
        load=msgspec.json.encode(load).decode(),
        draining=beat.draining,
    )
