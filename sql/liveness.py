"""Whether a process that registered still lives, by its last sign of life."""

from sql import presence
from sql.models import Registration

#: Three heartbeats of an executor, four of a scheduler, three of a console.
EXECUTOR_ALIVE_MS = 15_000
SCHEDULER_ALIVE_MS = 2_000
CONSOLE_ALIVE_MS = 15_000


def state(row: Registration, now_ms: int) -> str:
    """Return `alive`, `draining` or `silent`; `absent` for one that is only listed."""
    if not row.beat_at:
        return "absent"
    if now_ms - row.beat_at > _limit_ms(row):
        return "silent"
    return "draining" if row.draining or row.drain_asked_at else "alive"


def _limit_ms(row: Registration) -> int:
    if row.registry_group == presence.EXECUTOR:
        return EXECUTOR_ALIVE_MS
    return CONSOLE_ALIVE_MS if row.registry_key == presence.CONSOLE else SCHEDULER_ALIVE_MS
