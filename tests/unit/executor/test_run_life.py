from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.processes.slots import Slots
from warren.executor.run_life import Event, Phase, SlotEvent, SlotPhase

LIFE, SLOT_LIFE = ActiveRuns.LIFE, Slots.LIFE
Table = Mapping[Any, Mapping[Any, tuple[Any, Sequence[Any]]]]

TABLES = pytest.mark.parametrize(
    ("table", "phases", "firsts", "events"),
    [
        (LIFE, Phase, {Phase.WAITING}, Event),
        # A run is assigned early when another is given to a process.
        (SLOT_LIFE, SlotPhase, {SlotPhase.QUEUED}, SlotEvent),
    ],
    ids=["executor", "slot"],
)


def rows(table: Table) -> Iterator[tuple[Any, Any, Any, Sequence[Any]]]:
    for phase, events in table.items():
        for event, (after, effects) in events.items():
            yield phase, event, after, effects


@TABLES
def test_table_leads_every_run_from_its_beginning_to_its_end(
    table: Table, phases: Any, firsts: set[Any], events: Any
) -> None:
    reached, ends = set(firsts), {phases.GONE}
    for _ in phases:
        reached |= {after for phase, _, after, _ in rows(table) if phase in reached}
        ends |= {phase for phase, _, after, _ in rows(table) if after in ends}

    assert reached == ends == set(phases)


@TABLES
def test_every_event_is_in_the_table(
    table: Table, phases: Any, firsts: set[Any], events: Any
) -> None:
    used = [row for row in rows(table) if row[0] is not phases.GONE]

    assert {event for _, event, _, _ in used} == set(events)


def test_a_run_that_is_gone_stays_so_without_any_effect() -> None:
    assert LIFE[Phase.GONE] == {}
    assert set(SLOT_LIFE[SlotPhase.GONE]) == set(SlotEvent)
    assert set(SLOT_LIFE[SlotPhase.GONE].values()) == {(SlotPhase.GONE, ())}


def test_a_run_can_be_stopped_as_long_as_it_is_there() -> None:
    assert {phase for phase, events in LIFE.items() if Event.STOP not in events} == {Phase.GONE}
    # One that was assigned early is taken back first.
    assert {phase for phase, events in SLOT_LIFE.items() if SlotEvent.STOP not in events} == {
        SlotPhase.ASSIGNED_EARLY
    }


def test_a_run_leaves_its_lane_exactly_when_it_is_gone() -> None:
    leave = {ActiveRuns._drop_from_lane, ActiveRuns._leave_lane, ActiveRuns._leave_unstarted}

    assert [
        (phase, event)
        for phase, event, after, effects in rows(LIFE)
        if (after is Phase.GONE) != (len(leave.intersection(effects)) == 1)
    ] == []


def test_a_run_that_leaves_its_slot_has_ended_or_goes_back() -> None:
    leave = {Slots._report_end, Slots._give_back, Slots._forget}

    assert [
        (phase, event)
        for phase, event, after, effects in rows(SLOT_LIFE)
        if phase is not SlotPhase.GONE
        and (after is SlotPhase.GONE) != (len(leave.intersection(effects)) == 1)
    ] == []


def test_whatever_a_process_does_not_begin_any_more_is_no_end() -> None:
    assert [
        phase
        for phase, event, _, effects in rows(SLOT_LIFE)
        if event is SlotEvent.NOT_BEGUN and Slots._report_end in effects
    ] == []
