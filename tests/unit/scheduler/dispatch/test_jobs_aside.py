"""Jobs whose executor is full are left out until it has room, or for a while."""

from warren.scheduler.dispatch.decisions import FULL_SECONDS, Place
from warren.scheduler.dispatch.peeks import MANY_FULL_SECONDS, MANY_WAITING_SECONDS, JobsAside

FULL: Place = (1, "full")
OTHER: Place = (1, "other")


def no_room(_place: Place) -> int:
    return 0


def test_jobs_that_fill_a_peek_are_looked_at_again_after_seconds_and_fewer_soon() -> None:
    few, many = JobsAside(), JobsAside()
    few.put_full({1: FULL, 2: FULL, 3: FULL, 4: None}, 0.0, peek_limit=5)
    many.put_full({1: FULL, 2: FULL, 3: FULL, 4: None}, 0.0, peek_limit=4)

    few.free(FULL_SECONDS, no_room)
    many.free(FULL_SECONDS, no_room)

    assert set(few.job_ids) == set()
    assert set(many.job_ids) == {1, 2, 3, 4}
    many.free(MANY_WAITING_SECONDS, no_room)
    assert set(many.job_ids) == {1, 2, 3}
    many.free(MANY_FULL_SECONDS, no_room)
    assert set(many.job_ids) == set()


def test_as_many_jobs_come_back_as_there_is_room_in_the_order_in_which_they_were_put() -> None:
    aside = JobsAside()
    aside.put_full(dict.fromkeys(range(9), FULL) | {9: OTHER}, 0.0, peek_limit=10)

    aside.free(1.0, lambda place: 3 if place == FULL else 0)

    assert list(aside.job_ids) == [3, 4, 5, 6, 7, 8, 9]


def test_a_broken_job_waits_for_no_room() -> None:
    aside = JobsAside()
    aside.put_broken(1, 0.0)

    aside.free(59.0, lambda _place: 9)
    assert list(aside.job_ids) == [1]

    aside.free(60.0, lambda _place: 9)
    assert list(aside.job_ids) == []
