"""Measured figures get into the page about performance."""

from pathlib import Path

import pytest

from benchmarks.page import PAGE, filled

ROOT = Path(__file__).parents[3]
BARE = {"mariadbd": 40, "RabbitMQ": 110, "publishing, finishing": 60, "running": 70, "workers": 20}
OURS = {
    "mariadbd": 90,
    "RabbitMQ": 20,
    "scheduler": 80,
    "executor": 70,
    "zygote, job processes": 50,
    "benchmark": 6,
}
MEASURED = {
    "machine": "2 cores, MariaDB 10.11",
    "rows": [
        {"what": "what", "measured": "measured", "ratio": "ratio", "goal": "goal"},
        {"what": "runs/s", "measured": "2,784", "ratio": "0.73 of the bare pipeline", "goal": ""},
        {"what": "  CPU us a run", "measured": "316", "ratio": "", "goal": ""},
    ],
    "throughput": [
        {
            "single": [{"runs_per_second": 5_000.0, "cpu_us": BARE}],
            "packed": [{"runs_per_second": 9_000.0, "cpu_us": BARE}],
            "ours": [{"runs_per_second": 3_000.0, "cpu_us": OURS}],
        }
    ],
}


def test_page_gets_the_figures_and_the_cost_of_each_process() -> None:
    page = filled((ROOT / PAGE).read_text(), MEASURED)

    assert "runs/s  2,784     0.73 of the bare pipeline\n" in page
    assert "| zygote and job processes (bare: workers) | 20 | 20 | 50 |" in page
    assert "| together | 300 | 300 | 316 |" in page
    assert "CPU us a run" not in page


def test_figures_take_the_place_of_older_ones() -> None:
    once = filled((ROOT / PAGE).read_text(), MEASURED)

    assert filled(once, MEASURED) == once


def test_page_without_places_for_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="figures"):
        filled("# Performance\n", MEASURED)


def test_figures_of_another_database_are_refused() -> None:
    measured = MEASURED | {"machine": "2 cores, PostgreSQL 15.10"}

    with pytest.raises(ValueError, match=r"expected figures of MariaDB, got: .* PostgreSQL 15\.10"):
        filled((ROOT / PAGE).read_text(), measured)
