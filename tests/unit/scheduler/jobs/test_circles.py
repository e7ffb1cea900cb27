"""Circles among children, found before they run for ever."""

import pytest

from warren.scheduler.jobs.dependencies import circling, find_circle


@pytest.mark.parametrize(
    ("children", "circle"),
    [
        ({1: [1]}, [1, 1]),
        ({1: [2], 2: [1]}, [1, 2, 1]),
        ({1: [2, 3], 2: [4], 3: [1], 4: [1]}, [1, 3, 1]),
        ({1: [2], 2: [3], 3: [4], 4: [5], 5: [1]}, [1, 2, 3, 4, 5, 1]),
    ],
)
def test_the_shortest_way_back_is_named(children: dict[int, list[int]], circle: list[int]) -> None:
    assert find_circle(1, children) == circle


@pytest.mark.parametrize(
    "children",
    [
        {},
        {1: [2, 3], 2: [4], 3: [4]},
        {2: [3], 3: [2]},
        # Somebody else's circle, which this job only leads into.
        {1: [2], 2: [3], 3: [2]},
    ],
)
def test_no_way_back_is_no_circle(children: dict[int, list[int]]) -> None:
    assert find_circle(1, children) is None


def test_a_chain_has_no_links_that_circle() -> None:
    assert circling({number: [number + 1] for number in range(10_000)}) == {}


def test_what_leads_to_a_circle_and_what_it_leads_to_is_left_out() -> None:
    children = {1: [2, 9], 2: [3, 4], 3: [5, 2], 4: [2], 5: [6], 9: []}

    assert circling(children) == {2: [3, 4], 3: [2], 4: [2]}


def test_the_way_between_two_circles_is_kept_and_is_no_circle() -> None:
    children = circling({1: [2], 2: [1, 3], 3: [4], 4: [5], 5: [4]})

    assert children == {1: [2], 2: [1, 3], 3: [4], 4: [5], 5: [4]}
    assert find_circle(3, children) is None
