"""Opens what a scheduler has sent to executors."""

from collections.abc import Iterable

from broker.keys import AppKeys
from broker.messages.to_executor import Trigger, Triggers
from broker.signing import Direction, Sealer
from broker.transport import Delivery
from broker.trigger_packs import unpacked
from scheduler.node import SchedulerNode
from sql.registry.cluster import cluster_id
from tests.support.cluster import APP, SECRET


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
