"""Composes heartbeats: who this executor is, how busy it is, and whether it takes runs."""

from warren.broker.messages.to_scheduler import Heartbeat, Load
from warren.broker.trigger_packs import PACK_TRIGGERS
from warren.executor.boot_context import BootContext
from warren.executor.core.assembly import Roles
from warren.executor.core.watch import Watch

#: How long an executor of remote runs may be away and still continue them.
REMOTE_RETURN_SECONDS = 120


class HeartbeatComposer:
    """Reads counters of the roles only, so that any thread may call it."""

    def __init__(self, context: BootContext, roles: Roles, watch: Watch) -> None:
        self._identity = context.identity
        self._slot_count = context.limits.slots
        self._roles = roles
        self._watch = watch
        self._clock = context.clock
        self._started_at_ms = context.clock.now_ms()

    def compose(self) -> Heartbeat:
        """Return the current heartbeat."""
        told = self._roles.slots.catalogue
        return Heartbeat(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            started_at_ms=self._started_at_ms,
            load=self._load(),
            catalogue=told.fingerprint if told else "",
            draining=self._roles.readiness.refusal is not None,
            ailments=self._watch.ailments,
            returns_seconds=REMOTE_RETURN_SECONDS if self._roles.slots.is_remote else 0,
            triggers_per_message=PACK_TRIGGERS,
            sent_at_ms=self._clock.steady_ms(),
        )

    def _load(self) -> Load:
        cpu_percent, memory_percent = self._roles.load.read()
        return Load(
            cpu_percent=cpu_percent,
            memory_percent=memory_percent,
            slots=self._slot_count,
            running=self._roles.active_runs.running_count,
            waiting=self._roles.active_runs.waiting_count,
        )
