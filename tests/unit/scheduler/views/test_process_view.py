"""What the schedulers that are online say together."""

import json

import pytest

from warren.scheduler.views.process_view import schedulers_view
from warren.sql.models import Registration
from warren.sql.registry import presence

NOW_MS = 1_000_000


def scheduler(
    *unreachable: str, ailments: tuple[str, ...] = (), beat_at: int = NOW_MS
) -> Registration:
    return Registration(
        kind=presence.ADMIN,
        app=presence.SCHEDULER,
        address="node",
        boot_id="b",
        boot_at=1,
        beat_at=beat_at,
        draining=0,
        drain_asked_at=0,
        load=json.dumps({"unreachable": unreachable, "ailments": ailments}),
    )


LONG_AGO = NOW_MS - 60_000


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], (False, False, set())),
        ([scheduler("a/one", beat_at=LONG_AGO)], (False, False, set())),
        ([scheduler("a/one", "a/two")], (True, False, {"a/one", "a/two"})),
        ([scheduler("a/one", "a/two"), scheduler("a/two")], (True, False, {"a/two"})),
        ([scheduler("a/one"), scheduler()], (True, False, set())),
        ([scheduler("a/one"), scheduler(beat_at=LONG_AGO)], (True, False, {"a/one"})),
        ([scheduler(ailments=("unconfirmed",))], (True, True, set())),
        (
            [scheduler(ailments=("broker",)), scheduler(ailments=("unconfirmed",))],
            (True, True, set()),
        ),
        (
            [scheduler(ailments=("unconfirmed",)), scheduler(ailments=("clock",))],
            (True, False, set()),
        ),
    ],
)
def test_what_no_scheduler_can_do_is_what_each_says(
    rows: list[Registration], said: tuple[bool, bool, set[str]]
) -> None:
    found = schedulers_view(rows, NOW_MS)

    assert (found.are_online, found.is_stalled, found.unreachable) == said


def test_a_problem_of_one_of_them_is_told() -> None:
    rows = [
        scheduler(ailments=("server",)),
        scheduler(),
        scheduler(ailments=("clock",), beat_at=LONG_AGO),
    ]

    assert schedulers_view(rows, NOW_MS).ailments == {"server"}
