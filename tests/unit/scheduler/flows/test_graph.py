"""The `flow` of a job is read, refused with the place at fault, and stored in one form."""

import pytest

from warren.resources.runs import Condition, Join
from warren.scheduler.flows.graph import (
    NodeRetry,
    certainly_over,
    parse,
    stored_graph,
)
from warren.scheduler.problems import Code, Refused

FLOW = {
    "extract": {"job": "extract"},
    "load": {
        "job": "ops/load",
        "after": "extract",
        "param_template": "{{ run_date }} {{ extract.result.rows }}",
        "retries": 2,
        "retry": {"delay": "10s", "backoff": "exponential", "most": 60, "jitter": 0.5},
    },
    "parts": {"job": "part", "after": ["load"], "each": "{{ load.result.files }}"},
    "mend": {"job": "mend", "after": {"load": "failure"}},
    "report": {
        "job": "report",
        "after": ["parts", "mend"],
        "join": "any",
        "if": "{{ load.result.rows > 0 }}",
    },
}


def test_a_flow_is_read_as_it_is_written() -> None:
    graph = parse(FLOW)

    assert graph.nodes["load"].job == "ops/load"
    assert graph.nodes["load"].retry == NodeRetry(
        times=2, delay=10, backoff="exponential", most=60, jitter=0.5
    )
    assert graph.nodes["mend"].after == {"load": Condition.FAILURE}
    assert graph.nodes["report"].join is Join.ANY
    assert graph.order.index("report") > graph.order.index("parts")
    assert graph.descendants({"parts"}) == {"parts", "report"}


def test_the_stored_form_is_the_same_for_equal_flows() -> None:
    graph = parse(FLOW)
    longer = {**FLOW, "extract": {"job": "extract", "join": "all", "after": None, "param": None}}

    assert stored_graph(graph.to_json()) == graph
    assert parse(longer).to_json() == graph.to_json()
    assert '"job":"ops/load","after":"extract"' in graph.to_json()
    assert parse(graph.to_mapping()) == graph
    renamed = graph.with_jobs(lambda job: "all" if job == "ops/load" else job)
    assert renamed.jobs == ("extract", "all", "part", "mend", "report")


#: What is wrong, the code, the field, and a part of the sentence.
REFUSED = [
    ([], Code.FLOW_FORM, "flow", "got: []"),
    ({}, Code.FLOW_SIZE, "flow", "got: 0"),
    ({f"n{n}": {"job": "a"} for n in range(1_001)}, Code.FLOW_SIZE, "flow", "got: 1001"),
    ({"a": "b"}, Code.FLOW_NODE_FORM, "flow/a", "expected node a to be a mapping"),
    ({"a-b": {"job": "a"}}, Code.FLOW_NODE_NAME, "flow", "'a-b'"),
    ({"run_date": {"job": "a"}}, Code.FLOW_NODE_NAME, "flow", "'run_date'"),
    ({"a": {}}, Code.FLOW_JOB, "flow/a/job", "got: nothing"),
    ({"a": {"job": 7}}, Code.FLOW_JOB, "flow/a/job", "got: 7"),
    ({"a": {"job": "x/"}}, Code.FLOW_JOB, "flow/a/job", "got: 'x/'"),
    ({"a": {"jobs": "a", "job": "a"}}, Code.UNKNOWN_WORD_NEAR, "flow/a", "did you mean 'job'"),
    ({"a": {"job": "a", "after": "b"}}, Code.FLOW_AFTER_UNKNOWN, "flow/a/after", "'b'"),
    ({"a": {"job": "a", "after": 7}}, Code.FLOW_AFTER_FORM, "flow/a/after", "got: 7"),
    (
        {"a": {"job": "a"}, "b": {"job": "a", "after": {"a": "succes"}}},
        Code.UNKNOWN_WORD_NEAR,
        "flow/b/after",
        "did you mean 'success'",
    ),
    ({"a": {"job": "a", "join": "some"}}, Code.UNKNOWN_WORD, "flow/a/join", "'some'"),
    ({"a": {"job": "a", "retries": -1}}, Code.INTEGER, "flow/a/retries", "got: -1"),
    ({"a": {"job": "a", "retry": {"delay": "x"}}}, Code.INTEGER, "flow/a/retry", "'x'"),
    ({"a": {"job": "a", "retry": {"jitter": 2}}}, Code.SHARE, "flow/a/retry", "2"),
    ({"a": {"job": "a", "if": "1 +"}}, Code.FLOW_EXPRESSION, "flow/a/if", "if of node a"),
    ({"a": {"job": "a", "if": "2 * 3"}}, Code.FLOW_EXPRESSION, "flow/a/if", "multiplication"),
    ({"a": {"job": "a", "if": "b.result"}}, Code.FLOW_NAME_UNKNOWN, "flow/a/if", "'b'"),
    (
        {"a": {"job": "a", "param": "x", "param_template": "y"}},
        Code.PARAM_AND_TEMPLATE,
        "flow/a/param_template",
        "both",
    ),
    (
        {"a": {"job": "a", "param": "x", "each": "param"}},
        Code.FLOW_PARAM_AND_EACH,
        "flow/a/param",
        "both",
    ),
    ({"a": {"job": "a", "param_template": "{{ item }}"}}, Code.FLOW_NAME_UNKNOWN, "", "'item'"),
]


@pytest.mark.parametrize(
    ("flow", "code", "field", "words"), REFUSED, ids=[str(row[3])[:40] for row in REFUSED]
)
def test_a_flow_is_refused_with_the_place_at_fault(
    flow: object, code: Code, field: str, words: str
) -> None:
    with pytest.raises(Refused) as refused:
        parse(flow)

    [problem] = refused.value.problems
    assert problem.code is code
    assert problem.field.startswith(field)
    assert words in str(problem)


def test_a_circle_is_refused_with_its_path() -> None:
    flow = {
        "start": {"job": "a"},
        "a": {"job": "a", "after": ["start", "c"]},
        "b": {"job": "a", "after": "a"},
        "c": {"job": "a", "after": "b"},
        "end": {"job": "a", "after": "c"},
    }

    with pytest.raises(Refused, match="form a cycle: a -> b -> c -> a"):
        parse(flow)


def test_everything_that_is_wrong_is_said_together() -> None:
    with pytest.raises(Refused) as refused:
        parse({"a": {"job": "a", "after": "x"}, "b": {"job": ""}})

    assert [problem.code for problem in refused.value.problems] == [
        Code.FLOW_JOB,
        Code.FLOW_AFTER_UNKNOWN,
    ]


def test_a_node_may_name_only_what_is_over_whatever_the_order_of_ends() -> None:
    graph = parse(FLOW)

    over = certainly_over(graph)

    assert over["load"] == ("extract",)
    assert over["report"] == ("extract", "load")
    with pytest.raises(Refused, match="names 'parts', which may not be over"):
        parse({**FLOW, "report": {**FLOW["report"], "if": "parts.result"}})  # type: ignore[dict-item]


def test_a_bypassed_node_does_not_promise_that_all_before_it_are_over() -> None:
    flow = {
        "a": {"job": "a"},
        "b": {"job": "a"},
        "c": {"job": "a", "after": ["a", "b"]},
        "d": {"job": "a", "after": {"c": "always"}},
        "e": {"job": "a", "after": {"c": "success"}},
    }

    over = certainly_over(parse(flow))

    assert over["d"] == ("c",)
    assert over["e"] == ("a", "b", "c")
