"""What becomes of the nodes of a flow: conditions, elements, results, and what cannot go on."""

import json
from itertools import permutations
from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.scheduler.flow_play import (
    FAILED,
    SKIPPED,
    SUCCEEDED,
    begun,
    end_node,
    end_run,
    flow,
    job,
    nodes_of,
    open_run,
    opened,
    outcomes,
    runs_of,
)
from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.sql_rows import put
from warren.broker.reasons import Why
from warren.scheduler.alarms.rate_limiter import AlarmRateLimiter
from warren.scheduler.board.folding import rebuild
from warren.scheduler.commands.reruns import Outcome
from warren.scheduler.problems import Code, Problem
from warren.sql.accounts.idempotency import FormKey
from warren.sql.instants import HOUR_MS
from warren.sql.models import Alarm

pytestmark = on_memory


def first_then(cluster: Cluster, **nodes: Any) -> int:
    """Open a flow whose nodes run after `first`; return its run's id."""
    cluster.apply(
        job("a", retries=0),
        flow(
            "nightly",
            {
                "first": {"job": "a"},
                **{n: {"job": "a", "after": "first", **w} for n, w in nodes.items()},
            },
        ),
    )
    return opened(cluster, "nightly", "the flow's")


def test_a_condition_decides_whether_a_node_runs(cluster: Cluster) -> None:
    run_id = first_then(
        cluster,
        many={"if": "{{ first.result.rows > 0 }}"},
        few={"if": "first.result.rows == 0"},
        odd={"if": "first.result.rows"},
        lost={"if": "first.result.row > 0"},
    )

    end_node(cluster, run_id, "first", result='{"rows": 3}')

    assert begun(cluster, run_id) == ["many"]
    rows = nodes_of(cluster, run_id)
    assert (rows["few"].outcome, rows["few"].reason) == ("BYPASSED", "its condition is false")
    assert (rows["odd"].outcome, rows["odd"].reason) == (
        "FAILED",
        "node odd cannot begin: expected if to be true or false, got: 3",
    )
    assert rows["lost"].reason == "node lost cannot begin: there is no 'row', only rows"
    [failed] = runs_of(cluster, run_id, "odd")
    assert (failed.status, failed.kind, failed.message) == ("FAILED", "NODE", rows["odd"].reason)


def test_a_param_is_made_of_the_results_before_it(cluster: Cluster) -> None:
    template = "{{ first.result.rows }} {{ first.outcome }} {{ param }} {{ job }} {{ run_date }}"
    run_id = first_then(cluster, made={"param_template": template}, plain={"param": "as it is"})

    end_node(cluster, run_id, "first", result='{"rows": 3}')

    [made], [plain] = runs_of(cluster, run_id, "made"), runs_of(cluster, run_id, "plain")
    assert made.param == f"3 SUCCEEDED the flow's a {cluster.run(run_id).run_date}"
    assert plain.param == "as it is"


def test_a_node_has_a_run_for_each_element_and_a_list_of_their_results(cluster: Cluster) -> None:
    run_id = first_then(
        cluster,
        parts={"each": "{{ first.result }}"},
        named={"each": "first.result", "param_template": "{{ index }}: {{ item.name }}"},
        last={"after": "parts", "if": "parts.result[1] == 'well'"},
    )

    end_node(cluster, run_id, "first", result='[{"name": "x"}, {"name": "y"}]')
    parts = runs_of(cluster, run_id, "parts")
    assert [(run.shard_index, run.shard_total, run.param) for run in parts] == [
        (0, 2, '{"name": "x"}'),
        (1, 2, '{"name": "y"}'),
    ]
    assert [run.param for run in runs_of(cluster, run_id, "named")] == ["0: x", "1: y"]
    end_node(cluster, run_id, "parts", result='"well"')

    assert nodes_of(cluster, run_id)["parts"].result == '["well","well"]'
    assert begun(cluster, run_id) == ["last", "named"]


def test_one_element_makes_a_list_too(cluster: Cluster) -> None:
    run_id = first_then(
        cluster,
        parts={"each": "first.result"},
        again={"after": "parts", "each": "parts.result"},
    )
    end_node(cluster, run_id, "first", result='["x"]')

    end_node(cluster, run_id, "parts", result='{"rows": 3}')

    assert nodes_of(cluster, run_id)["parts"].result == '[{"rows": 3}]'
    assert [run.param for run in runs_of(cluster, run_id, "again")] == ['{"rows": 3}']


def test_a_broadcast_to_one_executor_makes_a_list_too(cluster: Cluster) -> None:
    nodes = {
        "all": {"job": "b"},
        "last": {"job": "a", "after": "all", "param_template": "{{ all.result }}"},
    }
    cluster.apply(job("a"), job("b", route="SHARDING_BROADCAST"), flow("nightly", nodes))
    run_id = opened(cluster, "nightly")
    put(cluster.database, [runs_of(cluster, run_id, "all")[0].id], shard_total=1)

    end_node(cluster, run_id, "all", result="3")

    assert [run.param for run in runs_of(cluster, run_id, "last")] == ["[3]"]


def test_a_result_that_is_too_long_in_a_list_makes_the_list_too_long(cluster: Cluster) -> None:
    run_id = first_then(
        cluster, parts={"each": "first.result"}, last={"after": "parts", "each": "parts.result"}
    )
    end_node(cluster, run_id, "first", result="[1, 2]")
    first, second = runs_of(cluster, run_id, "parts")
    # The message of a run whose executor left the result out.
    why = Why.RESULT_TOO_LONG(n="60,000")
    end_run(cluster, first.id, result="1")
    end_run(cluster, second.id, message=why)

    assert nodes_of(cluster, run_id)["parts"].result is None
    reason = f"the result of parts cannot be used: {why}"
    assert nodes_of(cluster, run_id)["last"].reason == f"node last cannot begin: {reason}"


@pytest.mark.parametrize("order", [*permutations(["x", "y"])], ids=" then ".join)
def test_a_bypassed_node_has_an_outcome_whenever_it_was_bypassed(
    cluster: Cluster, order: tuple[str, ...]
) -> None:
    nodes = {
        "x": {"job": "a"},
        "y": {"job": "a"},
        "after_x": {"job": "a", "after": "x"},
        "last": {
            "job": "a",
            "after": {"y": "always", "after_x": "always"},
            "if": "after_x.outcome == 'BYPASSED' and after_x.result == none",
            "param_template": "{{ after_x.reason }}",
        },
    }
    cluster.apply(job("a"), flow("nightly", nodes))
    run_id = opened(cluster, "nightly")

    for node in order:
        end_node(cluster, run_id, node, status=FAILED if node == "x" else SUCCEEDED)

    assert begun(cluster, run_id) == ["last"]
    [last] = runs_of(cluster, run_id, "last")
    assert last.param == "x ended FAILED, and success was needed"


@pytest.mark.parametrize("order", [*permutations(["x", "y", "z"])], ids=" ".join)
def test_the_reason_of_a_bypassed_node_does_not_depend_on_the_order_of_ends(
    cluster: Cluster, order: tuple[str, ...]
) -> None:
    nodes = {
        **{name: {"job": "a"} for name in ("x", "y", "z")},
        "all": {"job": "a", "after": {"x": "always", "y": "success", "z": "failure"}},
        "any": {"job": "a", "after": {"x": "failure", "y": "success"}, "join": "any"},
        "behind": {"job": "a", "after": ["z", "all"]},
        "picky": {
            "job": "a",
            "after": {"y": "failure", "x": "always"},
            "if": "y.outcome == 'LOST'",
        },
        "last": {
            "job": "a",
            "after": dict.fromkeys(("x", "y", "z", "all"), "always"),
            "param_template": "{{ all.reason }}",
        },
    }
    cluster.apply(job("a", retries=0), flow("nightly", nodes))
    run_id = opened(cluster, "nightly")

    for node in order:
        end_node(cluster, run_id, node, status=FAILED if node == "y" else SUCCEEDED)

    rows = nodes_of(cluster, run_id).values()
    assert {row.node: row.reason for row in rows if row.outcome == "BYPASSED"} == {
        "all": "y ended FAILED, and success was needed",
        "any": "x ended SUCCEEDED, and failure was needed",
        "behind": "all ended BYPASSED, and success was needed",
        "picky": "its condition is false",
    }
    [last] = runs_of(cluster, run_id, "last")
    assert last.param == "y ended FAILED, and success was needed"


def test_an_empty_list_is_a_success_without_a_run(cluster: Cluster) -> None:
    run_id = first_then(
        cluster,
        parts={"each": "first.result"},
        last={"after": "parts", "if": "parts.result == first.result"},
    )

    end_node(cluster, run_id, "first", result="[]")

    assert outcomes(cluster, run_id) == {"first": "SUCCEEDED", "parts": "SUCCEEDED", "last": None}
    assert runs_of(cluster, run_id, "parts") == []
    assert begun(cluster, run_id) == ["last"]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ('{"rows": 3}', 'expected each to be a list, got: {"rows": 3}'),
        (json.dumps([0] * 1_001), "expected each to have up to 1,000 elements, got: 1,001"),
        (
            json.dumps("x" * 20_000),
            (
                "the result of first cannot be used: its result has 20002 bytes as JSON; up to "
                "16384 are kept for other nodes"
            ),
        ),
    ],
    ids=["no list", "1,001 elements", "a long result"],
)
def test_elements_that_there_cannot_be_fail_the_node_by_name(
    cluster: Cluster, result: str, why: str
) -> None:
    run_id = first_then(cluster, parts={"each": "first.result"}, other={})

    end_node(cluster, run_id, "first", result=result)

    assert nodes_of(cluster, run_id)["parts"].reason == f"node parts cannot begin: {why}"
    assert begun(cluster, run_id) == ["other"]


NASTY = {
    "an unhashable key": "first.result.rows[first.result]",
    "a sum that overflows": "first.result.huge + 0.5",
    "a huge number": "0x" + "F" * 4_000,
    "no number": "1e999 - 1e999",
    "half a character": r"'\ud800'",
    "a key with half a character": r"first.result['\ud800']",
    "no result": "first.result.rows.none",
    "a pattern with half a character": r"format(run_date, '\ud800')",
    "a date without end": "run_date + " + "9" * 900,
}


def test_no_expression_harms_another_node_than_its_own(cluster: Cluster) -> None:
    nodes = {
        f"{option}_{number}": {"after": {"first": "always"}, option: "{{" + source + "}}"}
        for number, source in enumerate(NASTY.values())
        for option in ("if", "each", "param_template")
    }
    long = {"each": "first.result.each", "param_template": "{{ first.result.text }}" * 6}
    run_id = first_then(cluster, **nodes, long=long, well={"after": {"first": "always"}})

    texts = {"rows": {}, "huge": 10**4_000, "each": [0] * 1_000, "text": "x" * 7_000}
    end_node(cluster, run_id, "first", result=json.dumps(texts))

    became = outcomes(cluster, run_id)
    assert became.pop("first") == "SUCCEEDED"
    assert begun(cluster, run_id) == ["well"]
    assert became.pop("well") is None
    assert set(became.values()) == {"FAILED"}
    rows = nodes_of(cluster, run_id)
    assert [row.reason for name, row in rows.items() if name in became and not row.reason] == []
    assert rows["long"].reason == (
        "node long cannot begin: the params of its runs are longer than 4,000,000 bytes in all"
    )
    end_node(cluster, run_id, "well")
    assert cluster.run(run_id).status == "FAILED"


def test_a_long_chain_of_nodes_that_cannot_begin_ends_in_one_transaction(cluster: Cluster) -> None:
    chain = {
        f"n{number}": {"after": {f"n{number - 1}" if number else "first": "always"}, "if": "'no'"}
        for number in range(300)
    }
    run_id = first_then(cluster, **chain)

    end_node(cluster, run_id, "first")

    run = cluster.run(run_id)
    assert run.status == "FAILED"
    assert set(outcomes(cluster, run_id).values()) == {"SUCCEEDED", "FAILED"}


def test_a_node_whose_job_is_gone_fails_with_its_reason(cluster: Cluster) -> None:
    cluster.apply(
        job("a"),
        job("b"),
        flow("nightly", {"first": {"job": "a"}, "second": {"job": "b", "after": "first"}}),
    )
    run_id = opened(cluster, "nightly")
    cluster.apply(flow("nightly", {"first": {"job": "a"}}))
    cluster.commands().delete("b")

    end_node(cluster, run_id, "first")

    assert nodes_of(cluster, run_id)["second"].reason == "its job was deleted"
    assert cluster.run(run_id).message == "failed, and no node handled it: second"


def test_a_skipped_node_is_neither_a_success_nor_a_failure(cluster: Cluster) -> None:
    run_id = first_then(
        cluster, then={}, mend={"after": {"first": "failure"}}, clean={"after": {"first": "always"}}
    )

    end_node(cluster, run_id, "first", status=SKIPPED, message="a holiday")

    assert begun(cluster, run_id) == ["clean"]
    assert outcomes(cluster, run_id)["then"] == "BYPASSED"
    assert nodes_of(cluster, run_id)["first"].reason == "a holiday"


def test_a_node_is_over_with_its_last_shard_and_its_last_retry(cluster: Cluster) -> None:
    retried = {"retries": 1, "retry": {"delay": 0}}
    run_id = first_then(cluster, parts={"each": "first.result", **retried}, last={"after": "parts"})
    end_node(cluster, run_id, "first", result="[1, 2]")

    end_node(cluster, run_id, "parts", status=FAILED)
    assert begun(cluster, run_id) == ["parts"]
    end_node(cluster, run_id, "parts", result="7")

    assert len(runs_of(cluster, run_id, "parts")) == 4
    assert begun(cluster, run_id) == ["last"]
    assert nodes_of(cluster, run_id)["parts"].result == "[7,7]"


def test_a_node_that_cannot_begin_raises_the_alarm_of_its_job(cluster: Cluster) -> None:
    cluster.apply(
        job("a", alarm_emails=("owner@example.com",)),
        flow("nightly", {"first": {"job": "a", "if": "1"}}, alarm_emails=("night@example.com",)),
    )

    run_id = opened(cluster, "nightly")

    [of_node] = runs_of(cluster, run_id, "first")
    assert alarms(cluster) == {of_node.id: "owner@example.com", run_id: "night@example.com"}


def told(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return who was told, of which job, and what."""
    wanted = select(Alarm.target, Alarm.content)
    rows = cluster.database.read(lambda session: session.execute(wanted).all())
    news = [(target, json.loads(content)) for target, content in rows]
    return sorted((target, of["job"], of["message"]) for target, of in news)


def owned(cluster: Cluster, nodes: dict[str, Any], **fields: Any) -> int:
    """Open a flow whose targets are, but for one, those of the job of its nodes."""
    cluster.apply(
        job("a", alarm_emails=("both@example.com", "owner@example.com")),
        flow("nightly", nodes, alarm_emails=("both@example.com", "night@example.com"), **fields),
    )
    return opened(cluster, "nightly")


def test_a_failed_node_is_told_once_to_each_target_at_once(cluster: Cluster) -> None:
    run_id = owned(cluster, {"first": {"job": "a"}, "long": {"job": "a"}, "late": {"job": "a"}})

    end_node(cluster, run_id, "first", status=FAILED, message="no disk")

    first = [
        ("both@example.com", "nightly", "node first failed: no disk"),
        ("night@example.com", "nightly", "node first failed: no disk"),
        ("owner@example.com", "a", "no disk"),
    ]
    assert told(cluster) == first
    end_node(cluster, run_id, "late", status=FAILED, message="no time")
    end_node(cluster, run_id, "long")
    assert cluster.run(run_id).status == "FAILED"
    assert told(cluster) == [*first, ("owner@example.com", "a", "no time")]


def test_what_a_retry_of_the_flow_mends_is_told_to_the_owner_of_the_node_alone(
    cluster: Cluster,
) -> None:
    run_id = owned(cluster, {"first": {"job": "a"}}, retries=1)

    end_node(cluster, run_id, "first", status=FAILED, message="no disk")
    [retry] = cluster.runs(kind="RETRY")
    of_owner = ("owner@example.com", "a", "no disk")
    assert told(cluster) == [of_owner]
    open_run(cluster, retry.id)
    end_node(cluster, retry.id, "first", status=FAILED, message="no disk")

    of_flow = "node first failed: no disk"
    assert told(cluster) == [
        ("both@example.com", "nightly", of_flow),
        ("night@example.com", "nightly", of_flow),
        of_owner,
        of_owner,
    ]


def test_a_handled_failure_is_told_by_the_job_of_its_node(cluster: Cluster) -> None:
    mend = {"mend": {"job": "a", "after": {"first": "failure"}}}
    run_id = owned(cluster, {"first": {"job": "a"}, **mend})

    end_node(cluster, run_id, "first", status=FAILED, message="no disk")
    end_node(cluster, run_id, "mend")

    assert cluster.run(run_id).status == "SUCCEEDED"
    assert told(cluster) == [
        ("both@example.com", "a", "no disk"),
        ("owner@example.com", "a", "no disk"),
    ]


def alarms(cluster: Cluster) -> dict[int, str]:
    """Return the targets of alarms by run."""
    wanted = select(Alarm.run_id, Alarm.target)
    return cluster.database.read(lambda session: dict(session.execute(wanted).all()))


def handled(cluster: Cluster) -> int:
    """Open a flow whose second node may fail, as another one mends what it leaves."""
    nodes = {
        "first": {"job": "a"},
        "second": {"job": "b", "after": "first"},
        "mend": {"job": "a", "after": {"second": "failure"}},
    }
    owner = {"alarm_emails": ("night@example.com",)}
    cluster.apply(job("a"), job("b"), flow("nightly", nodes, **owner))
    run_id = opened(cluster, "nightly")
    cluster.apply(flow("nightly", {"first": {"job": "a"}}, **owner))
    return run_id


def test_a_handled_node_whose_job_was_deleted_raises_the_alarm_of_its_flow(
    cluster: Cluster,
) -> None:
    run_id = handled(cluster)
    cluster.commands().delete("b")

    end_node(cluster, run_id, "first")
    end_node(cluster, run_id, "mend")

    assert cluster.run(run_id).status == "SUCCEEDED"
    assert alarms(cluster) == {run_id: "night@example.com"}
    [content] = cluster.database.read(lambda session: session.execute(select(Alarm.content)).all())
    assert "node second failed: its job was deleted" in content[0]


def test_a_handled_node_that_fails_after_its_job_was_deleted_raises_the_alarm_of_its_flow(
    cluster: Cluster,
) -> None:
    run_id = handled(cluster)
    end_node(cluster, run_id, "first")
    [second] = runs_of(cluster, run_id, "second")
    put(cluster.database, [second.id], status="RUNNING", routed_at=cluster.now_ms(), address="a")
    cluster.commands().delete("b")

    end_node(cluster, run_id, "second", status=FAILED)
    end_node(cluster, run_id, "mend")

    assert cluster.run(run_id).status == "SUCCEEDED"
    assert alarms(cluster) == {second.id: "night@example.com"}


@pytest.mark.parametrize("others", [{}, {"long": {"job": "a"}}], ids=["over", "still open"])
def test_a_mute_of_a_flow_holds_although_its_alarms_name_the_node(
    cluster: Cluster, others: dict[str, Any]
) -> None:
    cluster.apply(
        job("a"),
        flow("nightly", {"first": {"job": "a"}, **others}, alarm_emails=("night@example.com",)),
    )
    limiter = AlarmRateLimiter(database=cluster.database, per_hour=10)
    run_id = opened(cluster, "nightly")
    end_node(cluster, run_id, "first", status=FAILED, message="no luck")
    limiter.run_round(cluster.now_ms())
    for node in others:
        end_node(cluster, run_id, node)
    [flow_id] = [row.id for row in cluster.jobs(name="nightly")]
    cluster.database.write(lambda session: rebuild(session, [flow_id], now_ms=cluster.now_ms()))
    acting(cluster.database, cluster.now_ms).mutes.mute(
        flow_id, until_ms=cluster.now_ms() + HOUR_MS
    )

    end_node(cluster, opened(cluster, "nightly"), "first", status=FAILED, message="no luck")
    limiter.run_round(cluster.now_ms())

    wanted = select(Alarm.status).order_by(Alarm.id)
    statuses = cluster.database.read(lambda session: session.execute(wanted).scalars().all())
    assert statuses == ["READY", "DISMISSED"]


def test_a_node_that_could_not_begin_does_not_run_again_without_its_param(
    cluster: Cluster,
) -> None:
    run_id = first_then(cluster, load={"param_template": "{{ first.result.rows }}"})
    end_node(cluster, run_id, "first", result="{}")
    [failed] = runs_of(cluster, run_id, "load")

    with pytest.raises(Problem) as refused:
        acting(cluster.database).runs.rerun([failed.id])

    assert refused.value.code is Code.PARAM_NOT_MADE
    assert str(refused.value) == nodes_of(cluster, run_id)["load"].reason
    [part] = acting(cluster.database).bulk_runs.again([failed.id], FormKey(user_id=1, key="k" * 22))
    assert +part.counts == {Outcome.REFUSED: 1}
