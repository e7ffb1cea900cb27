"""Routes of an installation's own choose outside of transactions, and harm only their own runs."""

from random import Random

import pytest

from warren.scheduler.routing.routes import Asked, Choice, Router, RouteRequest, decide

ABC = ("a", "b", "c")


def asked(run_id: int, *, job_id: int = 1, route: str = "MINE", **values: object) -> Asked:
    request = RouteRequest(job_id=job_id, addresses=ABC, **values)  # type: ignore[arg-type]
    return Asked(run_id, route, request)


def counting(request: RouteRequest, _random: Random) -> Choice:
    count = (request.memory or {}).get("count", 0)
    return Choice(request.candidates[count % 3], f"turn {count}", {"count": count + 1})


def test_each_run_gets_the_choice_of_its_route() -> None:
    routers = {
        "MINE": Router(lambda request, _: Choice(request.candidates[0], "mine")),
        "YOURS": Router(lambda request, _: Choice(request.candidates[-1], "yours")),
    }

    made = decide([asked(1), asked(2, route="YOURS")], routers, Random(1))

    assert made[1].choice == Choice("a", "mine")
    assert made[2].choice == Choice("c", "yours")


def test_runs_of_one_job_see_the_memory_that_the_one_before_left() -> None:
    routers = {"MINE": Router(counting, needs_memory=True)}

    made = decide([asked(1), asked(2), asked(3, job_id=9)], routers, Random(1))

    assert [made[run].choice.address for run in (1, 2, 3)] == ["a", "b", "a"]
    assert made[2].request.memory == {"count": 1}


def fails(_request: RouteRequest, _random: Random) -> Choice:
    raise KeyError("zone")


@pytest.mark.parametrize(
    ("pick", "words"),
    [
        (fails, "KeyError: 'zone'"),
        (lambda *_: Choice("z", ""), "expected one of the executors that are online, got: 'z'"),
        (lambda *_: "a", "expected a Choice, got: 'a'"),
        (lambda *_: None, "expected a Choice, got: None"),
        (lambda *_: Choice("a", "", {"x": {1, 2}}), "not JSON serializable"),
        (lambda *_: Choice("a", "", {"x": "y" * 70_000}), "memory of up to 65536 characters"),
        (lambda *_: Choice("a", "", [1]), "expected a memory to be a mapping"),
        (lambda: None, "TypeError"),
    ],
)
def test_a_route_that_fails_costs_one_run(pick: object, words: str) -> None:
    routers = {"MINE": Router(pick), "YOURS": Router(counting)}  # type: ignore[arg-type]

    made = decide([asked(1), asked(2, route="YOURS")], routers, Random(1))

    assert words in made[1].fault
    assert made[1].choice.address is None
    assert (made[2].choice.address, made[2].fault) == ("a", "")


def test_a_wanted_executor_is_the_only_one_that_may_be_chosen() -> None:
    routers = {"MINE": Router(lambda *_: Choice("a", ""))}

    made = decide([asked(1, wanted=("b",))], routers, Random(1))

    assert "got: 'a'" in made[1].fault


def test_no_address_is_a_choice() -> None:
    routers = {"MINE": Router(lambda *_: Choice(None, "nobody is near"))}

    assert decide([asked(1)], routers, Random(1))[1].choice == Choice(None, "nobody is near")


def test_words_are_cut_and_a_memory_is_what_json_makes_of_it() -> None:
    routers = {"MINE": Router(lambda *_: Choice("a", "x" * 5_000, {"of": ("a", "b")}))}

    choice = decide([asked(1)], routers, Random(1))[1].choice

    assert len(choice.words) == 2_000
    assert choice.memory == {"of": ["a", "b"]}
