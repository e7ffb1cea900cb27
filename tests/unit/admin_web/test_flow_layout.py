"""The drawing of a flow: nothing overlaps, every edge goes on, and large flows stay small."""

from itertools import combinations, pairwise
from random import Random
from typing import Any

import pytest

from warren.admin_web.flows import (
    BOX_HEIGHT,
    BOX_WIDTH,
    MAX_SIBLINGS,
    Box,
    Drawing,
    draw,
)
from warren.scheduler.flows.graph import parse


def drawn(flow: dict[str, Any]) -> Drawing:
    return draw(parse({name: {"job": "load", **node} for name, node in flow.items()}))


def random_flow(seed: int) -> dict[str, Any]:
    random = Random(seed)
    return {
        f"n{k}": {
            "after": {
                f"n{before}": random.choice(["success", "failure", "always"])
                for before in random.sample(range(k), min(k, random.randrange(4)))
            }
        }
        for k in range(random.randrange(1, 40))
    }


def touch(one: Box, other: Box) -> bool:
    return abs(one.x - other.x) < BOX_WIDTH and abs(one.y - other.y) < BOX_HEIGHT


@pytest.mark.parametrize("seed", range(8))
def test_boxes_lie_apart_within_the_drawing_and_behind_what_they_depend_on(seed: int) -> None:
    flow = random_flow(seed)

    drawing = drawn(flow)

    place = {name: box for box in drawing.boxes for name in box.nodes}
    assert set(place) == set(flow)
    assert [pair for pair in combinations(drawing.boxes, 2) if touch(*pair)] == []
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - BOX_WIDTH
        assert 0 <= box.y <= drawing.height - BOX_HEIGHT
    for edge in drawing.edges:
        assert place[edge.before].x + BOX_WIDTH < place[edge.node].x


def test_a_chain_is_a_straight_line() -> None:
    drawing = drawn({f"n{k}": {"after": f"n{k - 1}"} if k else {} for k in range(10)})

    assert len({box.y for box in drawing.boxes}) == 1
    assert all(one.x < other.x for one, other in pairwise(drawing.boxes))


def test_ways_that_part_and_meet_lie_around_the_middle() -> None:
    drawing = drawn(
        {"a": {}, "up": {"after": "a"}, "down": {"after": "a"}, "z": {"after": ["up", "down"]}}
    )

    first, up, down, last = drawing.boxes
    assert first.y == last.y == (up.y + down.y) / 2


def test_an_edge_bends_around_the_boxes_that_it_passes() -> None:
    drawing = drawn({"a": {}, "b": {"after": "a"}, "c": {"after": ["a", "b"]}})

    [long] = [edge for edge in drawing.edges if (edge.before, edge.node) == ("a", "c")]
    [between] = [box for box in drawing.boxes if box.nodes == ("b",)]
    passes = int(long.path.rpartition("H")[0].rpartition(" ")[2])
    assert not between.y <= passes <= between.y + BOX_HEIGHT


def test_many_nodes_with_the_same_edges_share_a_box() -> None:
    parts = [f"part{k}" for k in range(998)]
    flow = {"a": {}, **{part: {"after": "a"} for part in parts}, "z": {"after": parts}}

    drawing = drawn(flow)

    assert [len(box.nodes) for box in drawing.boxes] == [1, 998, 1]
    assert len(drawing.edges) == 2
    assert drawing.height < 2 * BOX_HEIGHT


def test_a_few_nodes_with_the_same_edges_have_a_box_each() -> None:
    flow = {"a": {}, **{f"part{k}": {"after": "a"} for k in range(MAX_SIBLINGS)}}

    assert len(drawn(flow).boxes) == MAX_SIBLINGS + 1
