"""What an executor says about itself: heartbeats, and changes that no event reports.

Such changes are lost contact, ailments and absence.
"""

import structlog

from warren.broker.codec import MAX_PACK_TRIGGERS
from warren.broker.messages.to_scheduler import Ailment, Heartbeat, Load
from warren.executor.boot_context import BootContext
from warren.executor.core.assembly import Roles
from warren.executor.messaging.heartbeat import SchedulerClock


class Watch:
    """Compares each condition with its last state. Used from the core's thread.

    `ailments` may be read from any thread.
    """

    def __init__(
        self, roles: Roles, clock: SchedulerClock, log: structlog.typing.FilteringBoundLogger
    ) -> None:
        self._roles = roles
        self._clock = clock
        self._log = log
        self._was_held = True
        self._was_away = False
        self.ailments: tuple[Ailment, ...] = ()

    def check(self) -> None:
        """Check everything."""
        self._check_contact()
        self.check_ailments()
        self._check_absence()

    def check_ailments(self) -> None:
        """Check whether something keeps the executor from working, or soon will."""
        ailments = self._roles.readiness.ailments()
        if ailments == self.ailments:
            return
        self.ailments = ailments
        self._roles.heartbeats.beat_now()
        if ailments:
            self._log.warning(
                "executor_impaired", ailments=[str(ailment).lower() for ailment in ailments]
            )
        else:
            self._log.info("executor_recovered")

    def _check_contact(self) -> None:
        is_held = self._roles.contact.is_held(self._clock.monotonic())
        if is_held == self._was_held:
            return
        self._was_held = is_held
        waiting = self._roles.active_runs.waiting_count
        if is_held:
            self._log.info("contact_regained", waiting=waiting)
        else:
            self._roles.heartbeats.beat_now()
            self._log.warning("contact_lost", waiting=waiting)

    def _check_absence(self) -> None:
        away = self._roles.slots.away
        if (away is not None) == self._was_away:
            return
        self._was_away = away is not None
        self._roles.heartbeats.beat_now()
        if away is None:
            self._log.info("work_resumed")
        else:
            self._log.warning("work_suspended", why=str(away))
            self._roles.active_runs.return_waiting(away)


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
        self._run_states = context.run_states
        self._started_at_ms = context.clock.now_ms()

    def compose(self) -> Heartbeat:
        """Return the current heartbeat."""
        catalogue = self._roles.slots.catalogue
        return Heartbeat(
            app=self._identity.app,
            address=self._identity.address,
            boot_id=self._identity.boot_id,
            started_at_ms=self._started_at_ms,
            load=self._load(),
            catalogue=catalogue.fingerprint if catalogue else "",
            draining=self._roles.readiness.refusal is not None,
            ailments=self._watch.ailments,
            returns_seconds=REMOTE_RETURN_SECONDS if self._roles.slots.is_remote else 0,
            triggers_per_message=MAX_PACK_TRIGGERS,
            sent_at_ms=self._clock.steady_ms(),
            last_run_id=self._run_states.highest_id,
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
