"""Declares the queues of executors: once, and again when they may be gone."""

import threading
from collections.abc import Callable, Iterable

import structlog

from warren.broker import topology
from warren.broker.errors import TopologyError
from warren.broker.messages.values import Boot
from warren.broker.transport import Admin

#: Boots whose queues are remembered as declared. Beyond that all are declared again, so that boots
#: that exist only in the heartbeats of a stolen key take up no memory.
BOOT_LIMIT = 10_000

log = structlog.get_logger()


class ExecutorQueues:
    """The queues of boots that were let in here. `note_missing` may be called by any thread.

    Args:
        losses: returns a value that changes whenever exchanges and queues may be gone.
        restore: declares the exchanges again, and the queues of this scheduler.
        quorum: whether run queues are quorum queues.

    """

    def __init__(
        self,
        admin: Admin,
        *,
        losses: Callable[[], tuple[int, ...]],
        restore: Callable[[], None],
        quorum: bool,
    ) -> None:
        self._admin = admin
        self._losses = losses
        self._restore = restore
        self._quorum = quorum
        self._declared: set[Boot] = set()
        self._missing: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._seen_losses: tuple[int, ...] = ()

    def note_missing(self, app: str, address: str) -> None:
        """Declare an executor's queues again with its next heartbeat: one of them is not there."""
        with self._lock:
            self._missing.add((app, address))

    def forget_what_is_gone(self) -> None:
        """Forget the declarations of queues that may be gone; restore everything else at once.

        A broker that has lost its data has no exchange, and a deleted exchange takes its bindings
        with it. Without them no message arrives.

        Raises:
            BrokerUnavailable: the broker does not answer; call this again.

        """
        losses = self._losses()
        if losses != self._seen_losses:
            self._restore()
            self._seen_losses = losses
            self._declared.clear()
        with self._lock:
            missing, self._missing = self._missing, set()
        self._declared = {boot for boot in self._declared if boot[:2] not in missing}

    def are_there(self, boot: Boot) -> bool:
        """Return whether a boot's queues are there, as far as is known."""
        return boot in self._declared

    def declare(self, boot: Boot) -> bool:
        """Declare a boot's queues unless they are there; False when that cannot be done."""
        if boot in self._declared:
            return True
        app, address, boot_id = boot
        queues = [
            topology.run_queue(app, address, quorum=self._quorum),
            topology.command_queue(app, address, boot_id),
        ]
        try:
            self._admin.declare_queues(queues)
        except TopologyError as error:
            # One queue with other arguments must not keep the others waiting.
            log.warning("queue_not_declared", app=app, address=address, error=str(error))
            return False
        if len(self._declared) >= BOOT_LIMIT:
            self._declared.clear()
        self._declared.add(boot)
        return True

    def declare_commands(self, boots: Iterable[Boot]) -> None:
        """Declare the command queues of boots, even if they were declared before."""
        self._admin.declare_queues([topology.command_queue(*boot) for boot in boots])
