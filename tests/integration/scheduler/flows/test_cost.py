"""What flows cost: statements do not grow with nodes, and go with the runs that they belong to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event

from tests.integration.scheduler.family import completion, ends
from tests.integration.scheduler.flow_play import (
    end_node,
    flow,
    job,
    nodes_of,
    open_run,
    opened,
    runs_of,
)
from tests.support.cluster import Cluster, on_memory
from tests.support.sql_rows import put
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.retention.clearing import ClearingCriteria

pytestmark = on_memory


@contextmanager
def statements() -> Iterator[list[str]]:
    sent: list[str] = []

    def note(*facts: object) -> None:
        words = str(facts[2])
        if not words.startswith(("BEGIN", "SELECT CAST(ROUND((julianday")):  # the clock
            sent.append(words)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("width", [2, 100])
def test_the_ends_of_many_nodes_in_one_transaction_take_few_statements(
    cluster: Cluster, width: int
) -> None:
    many = {f"n{number}": {"job": "a"} for number in range(width)}
    after = {f"m{number}": {"job": "a", "after": f"n{number}"} for number in range(width)}
    cluster.apply(job("a"), flow("nightly", {**many, **after}))
    run_id = cluster.trigger("nightly")
    one = completion(cluster)

    with statements() as opening:
        open_run(cluster, run_id)
    run_ids = [run.id for run in cluster.runs(kind="NODE")]
    put(cluster.database, run_ids, status="SENT", routed_at=1, address="a")
    with statements() as ending:
        cluster.database.write(lambda session: one.end(session, ends(*run_ids)))

    assert len(cluster.runs(kind="NODE")) == 2 * width
    assert len(opening) <= 16, opening
    assert len(ending) <= 16, ending


def test_a_node_of_many_runs_reads_those_of_no_other_flow_that_is_due_with_its_own(
    cluster: Cluster,
) -> None:
    each = {"job": "a", "after": "list", "each": "{{ list.result }}"}
    cluster.apply(job("a"), flow("nightly", {"list": {"job": "a"}, "parts": each}))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "list", result="[1, 2]")
    run_ids = [run.id for run in runs_of(cluster, run_id, "parts")]
    put(cluster.database, run_ids, status="SENT", routed_at=1, address="a")
    one = completion(cluster)

    with statements() as sent:
        cluster.database.write(lambda session: one.end(session, ends(*run_ids)))
        audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC")

    of_due_times = [
        words for words in sent if "scheduled_at = ?" in words and "shard_index" in words
    ]
    assert of_due_times
    assert [words for words in of_due_times if "origin_id = ?" not in words] == []


def test_the_end_of_a_run_of_no_flow_asks_nothing_about_flows(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}}))
    run_id = cluster.trigger("a")
    put(cluster.database, [run_id], status="SENT", routed_at=1, address="a")
    one = completion(cluster)

    with statements() as ending:
        cluster.database.write(lambda session: one.end(session, ends(run_id)))

    assert not [words for words in ending if "warren_flow" in words]


def test_the_nodes_of_a_flow_are_deleted_with_its_run(cluster: Cluster) -> None:
    cluster.apply(job("a"), flow("nightly", {"x": {"job": "a"}}))
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "x")
    other = opened(cluster, "nightly")
    [flow_job] = cluster.jobs(name="nightly")

    cluster.commands().clear_runs(ClearingCriteria(job_id=flow_job.id))

    assert nodes_of(cluster, run_id) == {}
    assert len(runs_of(cluster, other, "x")) == 1
