"""Which executor each route chooses, what it remembers, and what it says."""

import csv
import json
import timeit
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.broker.reasons import Why
from warren.scheduler.routing.routes import (
    BUILT_IN,
    Choice,
    Memory,
    Probe,
    ProbeAnswer,
    Route,
    Router,
    RouteRequest,
    choose,
    consistent_hash,
    with_added,
)

RING = Path(__file__).parents[3] / "data" / "consistent_hash_cases.tsv"
ABC = ("a", "b", "c")
REMEMBERING = [route for route in Route if BUILT_IN[route].needs_memory]
OK, NO = ProbeAnswer(ok=True, words="one lives"), ProbeAnswer(ok=False, words="one timed out")


def request(addresses: tuple[str, ...] = ABC, **values: object) -> RouteRequest:
    return RouteRequest(job_id=7, addresses=addresses, **values)  # type: ignore[arg-type]


class Job:
    """A job whose memory goes through JSON between two decisions, as in its table."""

    def __init__(self, route: Route, seed: int = 1) -> None:
        self.route = route
        self.random = Random(seed)
        self.memory: Memory | None = None

    def next(self, addresses: tuple[str, ...] = ABC, wanted: tuple[str, ...] = ()) -> str | None:
        idle = {address: ProbeAnswer(ok=True, words="idle") for address in addresses}
        asked = request(addresses, memory=self.memory, wanted=wanted).with_probes(idle)
        choice = choose(self.route, asked, self.random)
        if choice.memory is not None:
            self.memory = json.loads(json.dumps(choice.memory))
        return choice.address


def ring_rows() -> list[dict[str, str]]:
    with RING.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def test_ring_table_is_whole() -> None:
    assert len(ring_rows()) == 200


def test_ring_agrees_with_the_table() -> None:
    others = [
        row
        for row in ring_rows()
        if consistent_hash(int(row["job_id"]), row["addresses"].split(",")) != row["route"]
    ]

    assert others == []


def test_ring_agrees_with_the_vector_of_the_manual() -> None:
    addresses = [f"http://10.0.0.{n}:9999/" for n in (1, 2, 3)]
    expected = "331313221111331221111223213133"

    got = "".join(consistent_hash(job, addresses)[14] for job in range(1, 31))
    shares = Counter(consistent_hash(job, addresses)[14] for job in range(1, 5_001))

    assert got == expected
    assert shares == {"1": 1559, "2": 1678, "3": 1763}


def test_ring_moves_only_the_jobs_of_an_executor_that_left() -> None:
    stayed = [
        (before, consistent_hash(job, ["a", "b", "c"]))
        for job in range(1_000)
        if (before := consistent_hash(job, ["a", "b", "c", "d"])) != "d"
    ]

    assert all(before == after for before, after in stayed)


def test_ring_without_addresses_is_refused() -> None:
    with pytest.raises(ValueError, match="expected addresses to have at least one"):
        consistent_hash(1, [])


def test_decision_among_fifty_executors_takes_microseconds() -> None:
    addresses = tuple(f"host-{n}-reports" for n in range(50))
    consistent_hash(1, addresses)

    seconds = min(timeit.repeat(lambda: consistent_hash(7, addresses), number=500, repeat=5)) / 500

    assert seconds < 100e-6


def test_first_and_last_choose_the_ends() -> None:
    assert Job(Route.FIRST).next() == "a"
    assert Job(Route.LAST).next() == "c"


def test_random_choice_reaches_every_executor_alike() -> None:
    job = Job(Route.RANDOM)

    shares = Counter(job.next() for _ in range(3_000))

    assert set(shares) == set(ABC)
    assert min(shares.values()) > 900


def test_round_goes_on_by_one() -> None:
    job = Job(Route.ROUND)

    got = "".join(str(job.next()) for _ in range(7))

    assert got in {"abcabca", "bcabcab", "cabcabc"}


def test_round_starts_anywhere_below_a_hundred() -> None:
    starts = {
        choice.memory["count"]
        for seed in range(2_000)
        if (choice := choose(Route.ROUND, request(), Random(seed))).memory
    }

    assert starts == set(range(100))


def test_round_goes_on_when_an_executor_leaves() -> None:
    job = Job(Route.ROUND)
    job.memory = {"route": "ROUND", "count": 10}

    got = [job.next(), job.next(("a", "c")), job.next(("a", "c"))]

    assert got == ["c", "a", "c"]


def test_least_frequently_used_evens_out() -> None:
    job = Job(Route.LEAST_FREQUENTLY_USED)

    shares = Counter(job.next() for _ in range(300))

    assert max(shares.values()) - min(shares.values()) <= 3


def test_least_frequently_used_takes_the_earliest_of_equals() -> None:
    job = Job(Route.LEAST_FREQUENTLY_USED)
    job.memory = {"route": "LEAST_FREQUENTLY_USED", "counts": {"c": 4, "b": 4, "a": 5}}

    assert [job.next(), job.next()] == ["b", "c"]


def test_least_frequently_used_forgets_who_left() -> None:
    job = Job(Route.LEAST_FREQUENTLY_USED)
    job.next()

    job.next(("a", "c"))

    assert job.memory is not None
    assert set(job.memory["counts"]) == {"a", "c"}


def test_new_executor_is_not_given_every_run_of_the_least_frequently_used() -> None:
    job = Job(Route.LEAST_FREQUENTLY_USED)
    job.memory = {"route": "LEAST_FREQUENTLY_USED", "counts": {"a": 9_000, "b": 9_001}}

    shares = Counter(job.next() for _ in range(30))

    assert 8 <= shares["c"] <= 12


def test_least_recently_used_takes_the_eldest() -> None:
    job = Job(Route.LEAST_RECENTLY_USED)

    got = [job.next() for _ in range(6)]

    assert got == ["a", "b", "c", "a", "b", "c"]


def test_executor_that_is_new_to_least_recently_used_waits_its_turn() -> None:
    job = Job(Route.LEAST_RECENTLY_USED)
    job.next()  # a

    got = [job.next(("a", "b", "c", "d")) for _ in range(4)]

    assert got == ["b", "c", "a", "d"]


def test_least_recently_used_forgets_who_left() -> None:
    job = Job(Route.LEAST_RECENTLY_USED)
    job.next()

    job.next(("b",))

    assert job.memory is not None
    assert job.memory["order"] == ["b"]


@pytest.mark.parametrize("route", [Route.FAILOVER, Route.BUSYOVER])
def test_first_executor_with_a_good_answer_is_chosen(route: Route) -> None:
    choice = choose(route, request(probes={"a": NO, "b": OK, "c": OK}), Random(1))

    assert choice.address == "b"
    assert str(choice.words) == f"{route.words}: one timed out; one lives"


@pytest.mark.parametrize("route", [Route.FAILOVER, Route.BUSYOVER])
def test_no_good_answer_is_no_choice_and_tells_each_answer(route: Route) -> None:
    choice = choose(route, request(probes={"a": NO, "c": NO}), Random(1))

    assert choice.address is None
    assert (
        str(choice.words)
        == f"{route.words}: one timed out; b did not answer; one timed out; none left"
    )


@pytest.mark.parametrize(
    ("route", "probes", "decided"),
    [
        (Route.FIRST, {}, True),
        (Route.FAILOVER, {}, False),
        (Route.FAILOVER, {"a": OK}, True),
        (Route.FAILOVER, {"b": OK, "c": OK}, False),
        (Route.FAILOVER, {"a": NO, "b": OK}, True),
        (Route.FAILOVER, {"a": NO, "b": NO}, False),
        (Route.FAILOVER, {"a": NO, "b": NO, "c": NO}, True),
    ],
)
def test_first_good_answer_in_order_decides(
    route: Route, probes: dict[str, ProbeAnswer], *, decided: bool
) -> None:
    assert BUILT_IN[route].is_decided(request(probes=probes)) is decided


def test_route_that_compares_answers_waits_for_all() -> None:
    router = Router(lambda asked, _: Choice(asked.candidates[0], ""), probe=Probe.IDLE_BEAT)

    assert not router.is_decided(request(probes={"a": OK, "b": OK}))
    assert router.is_decided(request(probes={"a": OK, "b": OK, "c": NO}))
    assert router.is_decided(request(wanted=("b",), probes={"b": OK}))


def test_words_of_a_failover_name_who_of_the_apps_list_is_away() -> None:
    choice = choose(Route.FAILOVER, request(away=("x",), probes={"a": OK}), Random(1))

    assert str(choice.words) == "failover: x is offline; one lives"


def test_nobody_of_the_apps_list_online_is_no_choice() -> None:
    choice = choose(Route.FIRST, request((), away=("x", "y")), Random(1))

    assert choice == Choice(None, Why.LISTED_OFFLINE(addresses="x, y"))


def test_unasked_probe_is_no_choice() -> None:
    choice = choose(Route.FAILOVER, request(), Random(1))

    assert choice == Choice(None, Why.NOBODY_ASKED(route=Route.FAILOVER.words))


def test_shard_goes_to_the_executor_of_its_index() -> None:
    got = [
        choose(Route.SHARDING_BROADCAST, request(shard_index=index), Random(1)).address
        for index in range(3)
    ]

    assert got == ["a", "b", "c"]


def test_retried_shard_whose_executor_left_goes_to_the_first() -> None:
    choice = choose(Route.SHARDING_BROADCAST, request(("a", "b"), shard_index=2), Random(1))

    assert choice.address == "a"
    assert str(choice.words) == "sharding broadcast, shard 2, moved because its executor left"


@pytest.mark.parametrize("route", list(Route))
def test_nobody_online_is_no_choice(route: Route) -> None:
    choice = choose(route, request(()), Random(1))

    assert choice == Choice(None, Why.NOBODY_ONLINE())


@pytest.mark.parametrize("route", list(Route))
def test_wanted_executor_is_chosen_on_every_route(route: Route) -> None:
    choice = choose(route, request(wanted=("b",), probes={"b": OK}), Random(1))

    assert choice.address == "b"


@pytest.mark.parametrize("route", list(Route))
def test_wanted_executor_that_is_away_is_not_replaced(route: Route) -> None:
    choice = choose(route, request(wanted=("z", "y")), Random(1))

    assert choice == Choice(None, Why.WANTED_OFFLINE(addresses="z, y"))


def test_wanted_executors_keep_the_order_of_the_user() -> None:
    choice = choose(Route.FIRST, request(wanted=("z", "c", "a")), Random(1))

    assert choice.address == "c"


@pytest.mark.parametrize("route", [Route.LEAST_FREQUENTLY_USED, Route.LEAST_RECENTLY_USED])
def test_run_with_a_wanted_executor_does_not_forget_the_others(route: Route) -> None:
    job = Job(route)
    job.next()

    job.next(wanted=("b",))

    assert job.memory is not None
    assert all(address in json.dumps(job.memory) for address in ABC)


@pytest.mark.parametrize("route", REMEMBERING)
@pytest.mark.parametrize("other", REMEMBERING)
def test_memory_of_the_route_before_an_edit_counts_as_none(route: Route, other: Route) -> None:
    old = Job(other)
    old.next()
    new = Job(route)
    new.memory = old.memory

    assert new.next() in ABC
    assert new.memory is not None
    assert new.memory["route"] == route


def test_memory_handed_in_is_never_changed() -> None:
    for route in Route:
        job = Job(route)
        job.next()
        before = json.dumps(job.memory)

        choose(route, request(memory=job.memory), Random(1))

        assert json.dumps(job.memory) == before


def test_only_routes_with_needs_ask_and_remember() -> None:
    asking = {route for route, router in BUILT_IN.items() if router.probe}
    assert asking == {Route.FAILOVER, Route.BUSYOVER}
    assert set(REMEMBERING) == {
        Route.ROUND,
        Route.LEAST_FREQUENTLY_USED,
        Route.LEAST_RECENTLY_USED,
        Route.BUSYOVER,
    }


@given(
    st.sampled_from(list(Route)),
    st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=20),
    st.integers(0, 1_000),
)
def test_choice_is_always_one_of_the_live(route: Route, rounds: list[set[str]], seed: int) -> None:
    job = Job(route, seed)

    for live in rounds:
        addresses = tuple(sorted(live))
        chosen = choose(
            route,
            request(addresses, memory=job.memory, probes=dict.fromkeys(addresses, OK)),
            job.random,
        )
        job.memory = chosen.memory
        assert chosen.address in live


def test_same_chance_gives_the_same_choice() -> None:
    one, two = (Job(Route.RANDOM, seed=5) for _ in range(2))

    assert [one.next() for _ in range(20)] == [two.next() for _ in range(20)]


def test_every_route_has_a_router() -> None:
    assert list(BUILT_IN) == list(Route)


def test_unknown_route_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"expected route to be one of FIRST, .*, got: 'NEAREST'"):
        choose("NEAREST", request(), Random(1))


def test_added_route_is_chosen_by_its_name() -> None:
    nearest = Router(lambda asked, _: Choice(asked.candidates[-1], "nearest"), probe=Probe.BEAT)
    routers = with_added({"NEAREST": nearest})

    choice = choose("NEAREST", request(), Random(1), routers)

    assert choice.address == "c"
    assert routers["NEAREST"].probe is Probe.BEAT
    assert choose(Route.FIRST, request(), Random(1), routers).address == "a"


def test_added_route_may_not_replace_a_built_in_one() -> None:
    with pytest.raises(ValueError, match="expected added routes to have new names, got: FIRST"):
        with_added({"FIRST": BUILT_IN[Route.LAST]})
