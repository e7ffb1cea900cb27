"""Executors that say that something keeps them from their work: others are chosen before them."""

import pytest

from tests.integration.scheduler.conftest import Seat
from tests.support.cluster import APP, Cluster, on_memory
from tests.support.eventually import eventually
from warren.broker.messages import HealthIssue
from warren.scheduler.node import SchedulerNode
from warren.scheduler.routing.routes import Route
from warren.sql.registry import presence
from warren.sql.run_status import RunStatus

pytestmark = on_memory

#: Those that ask executors first would wait for answers here; what they look at is the same.
UNASKED = [route for route in Route if route not in (Route.FAILOVER, Route.BUSYOVER)]
UNHEALTHY = (HealthIssue.JOURNAL, HealthIssue.DISK)
HINDERING = [issue for issue in HealthIssue if issue is not HealthIssue.LOG_STORE]


def send(
    cluster: Cluster, node: SchedulerNode, route: str = "FIRST", addresses: tuple[str, ...] = ()
) -> list[str | None]:
    """Trigger a new job; return where its run went, or its shards."""
    cluster.job(f"job-{route.lower()}", route=route)
    cluster.trigger(f"job-{route.lower()}", addresses=addresses)

    def is_sent() -> bool:
        node.dispatcher.run_round(cluster.now_ms())
        node.confirmations.drain()
        return not cluster.runs(status=RunStatus.PLANNED) + cluster.runs(status=RunStatus.ROUTED)

    eventually(is_sent)
    return [run.address for run in cluster.runs(status=RunStatus.SENT)]


@pytest.mark.parametrize("route", UNASKED)
@pytest.mark.parametrize("issue", HINDERING)
def test_an_unhealthy_executor_is_passed_over_while_another_is_healthy(
    cluster: Cluster, still: SchedulerNode, seat: Seat, route: str, issue: HealthIssue
) -> None:
    seat("one", health_issues=(issue,))
    seat("two")
    seat("zoe", health_issues=(issue,))

    assert send(cluster, still, route) == ["two"]


def test_an_executor_whose_logs_are_not_stored_runs_jobs_as_before(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=(HealthIssue.LOG_STORE,))
    seat("two")

    assert send(cluster, still) == ["one"]


def test_an_unhealthy_executor_is_chosen_where_all_are_unhealthy(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)
    seat("two", health_issues=(HealthIssue.CONTACT,))

    assert send(cluster, still) == ["one"]


def test_an_executor_that_a_person_named_is_chosen_though_unhealthy(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)
    seat("two")

    assert send(cluster, still, addresses=("one",)) == ["one"]


def test_of_several_that_a_person_named_one_that_is_well_is_chosen(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)
    seat("three")
    seat("two")

    assert send(cluster, still, addresses=("one", "two")) == ["two"]


def test_a_named_executor_that_is_away_does_not_replace_an_unhealthy_one(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)
    still.roster.dismiss(APP, "away", seat("away"))

    assert send(cluster, still, addresses=("one", "away")) == ["one"]


def test_the_run_tells_who_was_passed_over_and_why(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)
    seat("two")

    send(cluster, still)

    [run] = cluster.runs()
    assert "; online: one, two; one is impaired: journal, disk; first of 1" in run.trigger_message


def test_the_registry_keeps_an_executors_health_issues(
    cluster: Cluster, still: SchedulerNode, seat: Seat
) -> None:
    seat("one", health_issues=UNHEALTHY)

    [row] = cluster.database.read(lambda session: presence.listing(session, presence.EXECUTOR))

    assert '"ailments":["JOURNAL","DISK"]' in row.load
