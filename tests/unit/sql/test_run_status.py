"""The arrows of a run's life and the codes of each status, as they were designed."""

import pytest

from warren.sql.run_status import CODES, ENTERED_FROM, FINAL, IN_FLIGHT, OPEN, RunStatus

FLYING = {"ROUTED", "SENT", "RUNNING"}

#: Every arrow there is, from -> to.
ARROWS = {
    # A flow is opened, or refused, without an executor.
    "PLANNED": {"ROUTED", "CANCELLED", "UNDELIVERED", "FAILED", "RUNNING", "REFUSED"},
    "ROUTED": {
        "SENT",
        "RUNNING",
        "UNDELIVERED",
        "SUCCEEDED",
        "SKIPPED",
        "FAILED",
        "TIMED_OUT",
        "KILLED",
        "REFUSED",
        "LOST",
    },
    "SENT": {
        "RUNNING",
        "UNDELIVERED",
        "SUCCEEDED",
        "SKIPPED",
        "FAILED",
        "TIMED_OUT",
        "KILLED",
        "REFUSED",
        "LOST",
    },
    "RUNNING": {"SUCCEEDED", "SKIPPED", "FAILED", "TIMED_OUT", "KILLED", "REFUSED", "LOST"},
}


def test_there_is_an_arrow_exactly_where_one_was_designed() -> None:
    arrows = {(start.value, to.value) for to in RunStatus for start in ENTERED_FROM[to]}

    assert arrows == {(start, to) for start, ends in ARROWS.items() for to in ends}


def test_every_status_is_open_or_final() -> None:
    assert frozenset(RunStatus) == OPEN | FINAL
    assert not OPEN & FINAL
    assert {status.value for status in IN_FLIGHT} == FLYING
    assert {RunStatus.PLANNED} == OPEN - IN_FLIGHT


def test_every_open_status_leads_to_an_end() -> None:
    reached = set(FINAL)
    while more := {s for to in reached for s in ENTERED_FROM[to]} - reached:
        reached |= more

    assert reached == set(RunStatus)


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        ("PLANNED", (0, 0)),
        ("ROUTED", (0, 0)),
        ("SENT", (200, 0)),
        ("RUNNING", (200, 0)),
        ("SUCCEEDED", (200, 200)),
        ("SKIPPED", (200, 200)),
        ("FAILED", (200, 500)),
        ("KILLED", (200, 500)),
        ("LOST", (200, 500)),
        ("TIMED_OUT", (200, 502)),
        ("UNDELIVERED", (500, 0)),
        ("REFUSED", (500, 0)),
        ("CANCELLED", (500, 0)),
    ],
)
def test_codes_are_those_that_xxl_jobs_readers_know(status: str, codes: tuple[int, int]) -> None:
    assert CODES[RunStatus(status)] == codes


def test_every_status_has_codes_and_predecessors() -> None:
    assert set(CODES) == set(ENTERED_FROM) == set(RunStatus)
