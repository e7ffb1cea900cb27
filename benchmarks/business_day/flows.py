"""What flows cost: a chain, a fan-in, and many flows at once."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.business_day.load import Spent, measure
from benchmarks.stack import APP, Stack
from benchmarks.table import Row
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec

#: Jobs that the nodes run, in turn.
JOBS = 10

Nodes = Mapping[str, Mapping[str, object]]


def rows(stack: Stack, *, flows: int, width: int, times: int) -> Iterator[Row]:
    """Measure; yield the lines of the table."""
    stack.apply([JobSpec(name=f"work-{n}", app=APP, handler="noop") for n in range(JOBS)])
    line, fan = chain(10), fan_in(width - 1)
    one = _flows(stack, "chain", line, 1)
    measure(stack, one, 1)  # warm up
    yield from _best(stack, one, times).rows("a flow of 10 nodes in a row: done after", "<= 1.0 s")
    wide = _flows(stack, "fan", fan, 1)
    what = f"a flow of {width:,} nodes, one after all others: done after"
    yield from _best(stack, wide, times).rows(what, "<= 1.5 s")
    for name, nodes in (("in-row", line), ("mixed", mixed())):
        many = _flows(stack, name, nodes, flows)
        spent = measure(stack, many, len(many))
        what = f"{flows} flows of 10 nodes at once, {name}: done after"
        yield from spent.rows(what, "<= 8 s", f"{spent.runs / spent.seconds:,.0f} runs/s")


def chain(length: int) -> Nodes:
    """Return nodes that run one after the other."""
    return {
        f"n{n}": {"job": f"work-{n % JOBS}"} | ({"after": f"n{n - 1}"} if n else {})
        for n in range(length)
    }


def fan_in(width: int) -> Nodes:
    """Return nodes that run together, and one after all of them."""
    together = [f"n{n}" for n in range(width)]
    nodes: dict[str, Mapping[str, object]] = {
        name: {"job": f"work-{n % JOBS}"} for n, name in enumerate(together)
    }
    return nodes | {"last": {"job": "work-0", "after": together}}


def mixed() -> Nodes:
    """Return ten nodes in five steps: two, one, five at once, one, one."""
    parts = [f"part{n}" for n in range(5)]
    return {
        "a": {"job": "work-0"},
        "b": {"job": "work-1"},
        "load": {"job": "work-2", "after": ["a", "b"]},
        **{part: {"job": f"work-{3 + n}", "after": "load"} for n, part in enumerate(parts)},
        "check": {"job": "work-8", "after": parts},
        "report": {"job": "work-9", "after": "check"},
    }


def _flows(stack: Stack, name: str, nodes: Nodes, count: int) -> list[int]:
    graph = parse(nodes)
    return stack.apply([JobSpec(name=f"{name}-{n}", app=APP, flow=graph) for n in range(count)])


def _best(stack: Stack, job_ids: Sequence[int], times: int) -> Spent:
    """Return the quickest of several times: it was disturbed least."""
    return min((measure(stack, job_ids, 1) for _ in range(times)), key=lambda one: one.seconds)
