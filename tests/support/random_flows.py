"""Random flows, and how their runs end: the same for the same seed."""

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.flow_judge import (
    FAILED,
    SKIPPED,
    SUCCEEDED,
    Expression,
    Fate,
    Fates,
    Flow,
    Known,
    Node,
    NoValue,
)

_NEEDED = ("success", "success", "success", "failure", "always")


def random_flow(chance: random.Random, most: int = 10) -> Flow:
    """Return a flow whose expressions name only what is certainly over."""
    flow: dict[str, Node] = {}
    for number in range(chance.randint(1, most)):
        before = chance.sample(list(flow), chance.randint(0, min(number, 3)))
        bare = Node(
            name=f"n{number}",
            after={name: chance.choice(_NEEDED) for name in before},
            join=chance.choice(["all", "all", "any"]),
            retries=chance.choice([0, 0, 1, 2]),
        )
        flow[bare.name] = _with_expressions(chance, flow, bare)
    return flow


def said(flow: Flow, chance: random.Random) -> dict[str, Any]:
    """Return a flow as it stands in a job file, its nodes in any order."""
    return {name: flow[name].said() for name in chance.sample(list(flow), len(flow))}


def random_fates(seed: str) -> Fates:
    """Return ends that depend on nothing but the seed, the node, its shard and its attempt."""

    def fate(node: str, shard: int, attempt: int) -> Fate:
        chance = random.Random(f"{seed} {node} {shard} {attempt}")
        status = chance.choices([SUCCEEDED, FAILED, SKIPPED], [70, 25, 5])[0]
        rows = {"rows": chance.randint(0, 4), "list": list(range(chance.randint(0, 3)))}
        return Fate(status, rows if status == SUCCEEDED else None)

    return fate


def certainly_over(flow: Flow, node: Node) -> set[str]:
    """Return the nodes that are over whenever this one begins, as docs/flows.md says."""
    ways = [
        {name} | (set() if needed == "always" else certainly_over(flow, flow[name]))
        for name, needed in node.after.items()
    ]
    if not ways:
        return set()
    return set.union(*ways) if node.join == "all" else set.intersection(*ways)


def _with_expressions(chance: random.Random, flow: Mapping[str, Node], bare: Node) -> Node:
    over = sorted(certainly_over(flow, bare))
    given: dict[str, Any] = {}
    if chance.random() < 0.25:
        given["condition"] = _condition(chance, over)
    if over and chance.random() < 0.25:
        given["each"] = _each(flow[chance.choice(over)])
    if chance.random() < 0.4:
        given["template"] = _template(chance, over, has_item="each" in given)
    kept = {name: getattr(bare, name) for name in ("name", "after", "join", "retries")}
    return Node(**kept, **given)


def _condition(chance: random.Random, over: list[str]) -> Expression:
    if not over:
        told = chance.random() < 0.5
        return Expression(str(told).lower(), lambda _known, _item: told)
    name, most = chance.choice(over), chance.randint(0, 3)
    return chance.choice(
        [
            Expression("false", lambda _known, _item: False),
            Expression(
                f"{name}.outcome == 'FAILED'", lambda known, _: known[name].outcome == FAILED
            ),
            Expression(
                f"{{{{ {name}.result.rows > {most} }}}}",
                lambda known, _: _part(known[name].result, "rows") > most,
            ),
            Expression(f"{name}.result", _no_truth),
        ]
    )


def _no_truth(_known: Known, _item: Any) -> Any:
    raise NoValue


def _each(before: Node) -> Expression:
    name = before.name
    if before.each is not None:
        return Expression(f"{{{{ {name}.result }}}}", lambda known, _: known[name].result)
    return Expression(
        f"{{{{ {name}.result.list }}}}", lambda known, _: _part(known[name].result, "list")
    )


def _template(chance: random.Random, over: list[str], *, has_item: bool) -> Expression:
    """Return a template that makes a list in JSON."""
    parts: list[tuple[str, Callable[[Known, Any], Any]]] = []
    for name in chance.sample(over, min(len(over), 2)):
        parts.append((f'"{{{{ {name}.outcome }}}}"', _outcome_of(name)))
        parts.append((f"{{{{ {name}.result | tojson }}}}", _result_of(name)))
    if has_item:
        parts.append(("{{ item | tojson }}", lambda _known, item: item))
        if chance.random() < 0.3:
            parts.append(("{{ item.rows }}", lambda _known, item: _part(item, "rows")))
    text = f"[{', '.join(text for text, _ in parts)}]"
    return Expression(
        text, lambda known, item: json.dumps([value(known, item) for _, value in parts])
    )


def _outcome_of(name: str) -> Callable[[Known, Any], Any]:
    return lambda known, _item: known[name].outcome


def _result_of(name: str) -> Callable[[Known, Any], Any]:
    return lambda known, _item: known[name].result


def _part(value: Any, part: str) -> Any:
    if not isinstance(value, dict):
        raise NoValue
    return value[part]
