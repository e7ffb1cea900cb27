from hypothesis import given
from hypothesis import strategies as st

from warren.executor.journal.run_states import BLOCK_SIZE, FinishedIds


@given(st.sets(st.integers(0, 2**53 - 1), max_size=200), st.integers(0, 2**53 - 1))
def test_it_holds_exactly_what_was_added(numbers: set[int], other: int) -> None:
    finished_ids = FinishedIds()

    for number in numbers:
        finished_ids.add(number, 0)

    assert all(number in finished_ids for number in numbers)
    assert (other in finished_ids) == (other in numbers)
    assert len(finished_ids) == len(numbers)


@given(st.sets(st.integers(0, 5_000), max_size=200))
def test_blocks_carry_everything_to_another_one(numbers: set[int]) -> None:
    finished_ids, copy = FinishedIds(), FinishedIds()
    for number in numbers:
        finished_ids.add(number, 7)

    for block, bits, at_ms in finished_ids.blocks():
        copy.add_block(block, bits, at_ms)

    assert {number for number in range(5_001) if number in copy} == numbers


def test_what_was_added_long_ago_is_forgotten_and_the_horizon_says_so() -> None:
    finished_ids = FinishedIds()
    finished_ids.add(1, at_ms=1_000)
    finished_ids.add(BLOCK_SIZE, at_ms=3_000)

    horizon = finished_ids.forget_before(2_000)

    assert horizon == 2_000
    assert 1 not in finished_ids
    assert BLOCK_SIZE in finished_ids


def test_block_lives_as_long_as_its_newest_id() -> None:
    finished_ids = FinishedIds()
    finished_ids.add(1, at_ms=1_000)
    finished_ids.add(2, at_ms=3_000)

    horizon = finished_ids.forget_before(2_000)

    assert horizon == 0
    assert 1 in finished_ids


def test_older_report_does_not_make_a_block_older() -> None:
    finished_ids = FinishedIds()
    finished_ids.add(2, at_ms=3_000)
    finished_ids.add(1, at_ms=1_000)

    assert finished_ids.forget_before(2_000) == 0
    assert 2 in finished_ids


def test_too_many_blocks_push_the_oldest_out_and_move_the_horizon() -> None:
    finished_ids = FinishedIds(limit=2)
    for number in range(4):
        finished_ids.add(number * BLOCK_SIZE, at_ms=1_000 + number)

    horizon = finished_ids.forget_before(0)

    assert horizon == 1_002
    assert [number for number in range(4) if number * BLOCK_SIZE in finished_ids] == [2, 3]


def test_million_dense_ids_take_few_blocks() -> None:
    finished_ids = FinishedIds()

    for number in range(0, 1_000_000, 3):
        finished_ids.add(number, at_ms=0)

    assert len(list(finished_ids.blocks())) == -(-1_000_000 // BLOCK_SIZE)
