"""After a claim's commit: counts its triggers, publishes them, and awaits their confirms."""

from collections.abc import Sequence

from warren.scheduler.dispatch.confirmations import Confirmations
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.routing.probes import Probes
from warren.scheduler.triggers.messages import RoutedTrigger
from warren.scheduler.triggers.publisher import TriggerPublisher


class TriggerSender:
    """Sends the triggers of one scheduler's claims."""

    def __init__(
        self,
        publisher: TriggerPublisher,
        confirmations: Confirmations,
        workload: Workload,
        probes: Probes,
    ) -> None:
        self._publisher = publisher
        self._confirmations = confirmations
        self._workload = workload
        self._probes = probes

    @property
    def is_open(self) -> bool:
        """Whether the broker takes messages now."""
        return self._publisher.is_open

    def wait_for_room(self, seconds: float) -> bool:
        """Wait until more may be sent; return False if too much is still unconfirmed by then."""
        return self._confirmations.wait_for_room(seconds)

    def send(self, app_id: int, triggers: Sequence[RoutedTrigger], committed_at: float) -> None:
        """Send routed triggers; `committed_at` is the monotonic time of the commit."""
        for item in triggers:
            self._workload.add(app_id, item.address)
        self._probes.note_sent(
            (
                (item.app, item.address, item.trigger.boot_id),
                item.trigger.job_id,
                item.trigger.run_id,
            )
            for item in triggers
        )
        if triggers:
            self._confirmations.add(self._publisher.send(triggers, decided_at=committed_at))
