"""A scheduler whose roles make their rounds only when a test says so."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from tests.support.cluster import APP, Cluster
from tests.support.eventually import eventually
from warren.broker.messages import HealthIssue, Heartbeat, Load
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts

Seat = Callable[..., str]


@pytest.fixture
def still_options() -> dict[str, Any]:
    """Options of the scheduler that is not started; a test sets them by `parametrize`."""
    return {}


@pytest.fixture
def still(cluster: Cluster, still_options: dict[str, Any]) -> SchedulerNode:
    """A scheduler that is not started, but can send: call the `run_round` of its roles."""
    return new_still(cluster, **still_options)


def new_still(
    cluster: Cluster,
    *,
    stale: float = 60.0,
    probe: float = 1.0,
    no_executor: float = 3_600.0,
    address_limit: int = 5,
    **options: Any,
) -> SchedulerNode:
    cluster.timeouts = Timeouts(lapse=3_600.0, no_executor=no_executor)
    timeouts = replace(cluster.timeouts, stale=stale, probe=probe)
    node = cluster.new_scheduler(address_limit=address_limit, timeouts=timeouts, **options)
    cluster.schedulers.append(node)
    eventually(lambda: node.connections.triggers.is_ready)
    node.roster.set_health(True)
    return node


@pytest.fixture
def seat(still: SchedulerNode, cluster: Cluster) -> Seat:
    """Let an executor in that only exists as a queue, or hear it again; return its boot id."""
    return seat_at(cluster, still)


def seat_at(cluster: Cluster, still: SchedulerNode) -> Seat:
    def seat(
        address: str = "one", *, app: str = APP, health_issues: tuple[HealthIssue, ...] = ()
    ) -> str:
        boot_id = f"boot-{address}"
        cluster.add_app(app)
        who = {"app": app, "address": address, "boot_id": boot_id}
        heartbeat = Heartbeat(started_at_ms=1, load=Load(), health_issues=health_issues, **who)
        still.roster.hear(heartbeat)
        still.registrar.greet(heartbeat, "")
        still.registrar.run_round(still.clock.now_ms())
        return boot_id

    return seat


@pytest.fixture
def events() -> Iterator[list[dict[str, object]]]:
    """What is logged during the test."""
    with structlog.testing.capture_logs() as found:
        yield found  # type: ignore[misc]
