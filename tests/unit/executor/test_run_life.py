from warren.executor.run_life import LIFE, Do, Event, Phase


def test_table_leads_every_run_from_its_lane_to_its_end() -> None:
    reached = {Phase.WAITING}
    for _ in Phase:
        reached |= {after for phase in reached for after, _ in LIFE[phase].values()}
    ends: set[Phase] = {Phase.GONE}
    for _ in Phase:
        ends |= {
            phase
            for phase, rows in LIFE.items()
            if any(after in ends for after, _ in rows.values())
        }

    assert reached == ends == set(Phase)


def test_a_run_that_is_gone_stays_so() -> None:
    assert LIFE[Phase.GONE] == {}


def test_a_run_can_be_stopped_as_long_as_it_is_there() -> None:
    assert {phase for phase, rows in LIFE.items() if Event.STOP not in rows} == {Phase.GONE}


def test_a_run_leaves_its_lane_exactly_when_it_is_gone() -> None:
    leave = {Do.DROP_FROM_LANE, Do.LEAVE_LANE, Do.LEAVE_UNSTARTED}

    assert [
        (phase, event)
        for phase, rows in LIFE.items()
        for event, (after, effects) in rows.items()
        if (after is Phase.GONE) != (len(leave.intersection(effects)) == 1)
    ] == []


def test_every_event_and_effect_is_in_the_table() -> None:
    rows = [row for each in LIFE.values() for row in each.items()]

    assert {event for event, _ in rows} == set(Event)
    assert {effect for _, (_, effects) in rows for effect in effects} == set(Do)
