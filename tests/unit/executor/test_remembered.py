from hypothesis import given
from hypothesis import strategies as st

from executor.remembered import BLOCK_SIZE, RememberedIds


@given(st.sets(st.integers(0, 2**53 - 1), max_size=200), st.integers(0, 2**53 - 1))
def test_it_holds_exactly_what_was_added(numbers: set[int], other: int) -> None:
    remembered = RememberedIds()

    for number in numbers:
        remembered.add(number, 0)

    assert all(number in remembered for number in numbers)
    assert (other in remembered) == (other in numbers)
    assert len(remembered) == len(numbers)


@given(st.sets(st.integers(0, 5_000), max_size=200))
def test_blocks_carry_everything_to_another_one(numbers: set[int]) -> None:
    remembered, copy = RememberedIds(), RememberedIds()
    for number in numbers:
        remembered.add(number, 7)

    for block, bits, at_ms in remembered.blocks():
        copy.add_block(block, bits, at_ms)

    assert {number for number in range(5_001) if number in copy} == numbers


def test_what_was_added_long_ago_is_forgotten_and_the_horizon_says_so() -> None:
    remembered = RememberedIds()
    remembered.add(1, at_ms=1_000)
    remembered.add(BLOCK_SIZE, at_ms=3_000)

    horizon = remembered.forget_before(2_000)

    assert horizon == 2_000
    assert 1 not in remembered
    assert BLOCK_SIZE in remembered


def test_block_lives_as_long_as_its_newest_id() -> None:
    remembered = RememberedIds()
    remembered.add(1, at_ms=1_000)
    remembered.add(2, at_ms=3_000)

    horizon = remembered.forget_before(2_000)

    assert horizon == 0
    assert 1 in remembered


def test_older_report_does_not_make_a_block_older() -> None:
    remembered = RememberedIds()
    remembered.add(2, at_ms=3_000)
    remembered.add(1, at_ms=1_000)

    assert remembered.forget_before(2_000) == 0
    assert 2 in remembered


def test_too_many_blocks_push_the_oldest_out_and_move_the_horizon() -> None:
    remembered = RememberedIds(limit=2)
    for number in range(4):
        remembered.add(number * BLOCK_SIZE, at_ms=1_000 + number)

    horizon = remembered.forget_before(0)

    assert horizon == 1_002
    assert [number for number in range(4) if number * BLOCK_SIZE in remembered] == [2, 3]


def test_million_dense_ids_take_few_blocks() -> None:
    remembered = RememberedIds()

    for number in range(0, 1_000_000, 3):
        remembered.add(number, at_ms=0)

    assert len(list(remembered.blocks())) == -(-1_000_000 // BLOCK_SIZE)
