"""How far a run is, as its page shows it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.console import Clock, Visit
from tests.support.stored_rows import Rows
from warren.resources.runs import RunProgress
from warren.scheduler.views.run_view import run_progress

NOW = 1_000_000


def run(progress: str | None, **columns: Any) -> Any:
    row = {"status": "RUNNING", "started_at": NOW - 30_000, "progress": progress}
    return SimpleNamespace(**(row | columns))


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ('{"done":25,"total":100,"text":"x"}', (25, "25", "100", 90_000, "x")),
        ('{"done":1500}', (None, "1,500", "", None, "")),
        ('{"done":0,"total":10}', (0, "0", "10", None, "")),
        ('{"done":12,"total":10}', (100, "12", "10", 0, "")),
        ('{"done":0.5,"total":2}', (25, "0.5", "2", 90_000, "")),
    ],
)
def test_the_time_left_is_at_the_pace_so_far(progress: str, shown: tuple[Any, ...]) -> None:
    percent, done, total, left_ms, text = shown

    assert run_progress(run(progress), NOW) == RunProgress(
        percent=percent, done=done, total=total, left_ms=left_ms, text=text
    )


@pytest.mark.parametrize("progress", [None, "", "no json", "{}"])
def test_without_a_word_nothing_is_shown(progress: str | None) -> None:
    assert run_progress(run(progress), NOW) is None
    assert run_progress(run('{"done":1}', status="SUCCEEDED"), NOW) is None


def test_a_page_shows_how_far_its_run_is(admin: Visit, rows: Rows, clock: Clock) -> None:
    run_id = rows.run(
        rows.job("load"),
        clock.now - 60_000,
        status="RUNNING",
        started_at=clock.now - 30_000,
        progress='{"done":25,"total":100,"text":"<loading>"}',
    )

    page = admin.get(f"/runs/{run_id}").text

    assert '<progress max="100" value="25">' in page
    assert "25 of 100 · &lt;loading&gt;" in page
    assert "about 1 min 30 s left" in page or "left" in page
