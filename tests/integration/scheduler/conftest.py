"""A scheduler whose roles make their rounds only when a test says so."""

from collections.abc import Callable, Iterator

import pytest
import structlog

from broker.messages import Heartbeat, Load
from broker.topology import command_queue, run_queue
from scheduler import greeter
from scheduler.node import SchedulerNode
from scheduler.patience import Patience
from tests.support.cluster import APP, Cluster

Seat = Callable[..., str]


@pytest.fixture
def still(cluster: Cluster) -> SchedulerNode:
    """A scheduler that is not started: call the `tick` of its roles."""
    cluster.patience = Patience(lapse=3_600.0, no_executor=1.0)
    node = cluster.new_scheduler(address_limit=5)
    cluster.schedulers.append(node)
    node.roster.set_health(True)
    return node


@pytest.fixture
def seat(still: SchedulerNode) -> Seat:
    """Let an executor in that only exists as a queue; return its boot id."""

    def seat(address: str = "one", *, app: str = APP) -> str:
        boot_id = f"boot-{address}"
        queues = [run_queue(app, address), command_queue(app, address, boot_id)]
        still._connections.admin.declare_queues(queues)
        who = {"app": app, "address": address, "boot_id": boot_id}
        heartbeat = Heartbeat(started_at_ms=1, load=Load(), **who)
        now_ms = still.clock.now_ms()
        still._database.write(lambda session: greeter._hold(session, heartbeat, now_ms))
        still.roster.admit(app, address, boot_id, heartbeat)
        return boot_id

    return seat


@pytest.fixture
def events() -> Iterator[list[dict[str, object]]]:
    """What is logged during the test."""
    with structlog.testing.capture_logs() as found:
        yield found  # type: ignore[misc]
