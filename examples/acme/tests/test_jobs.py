"""The job files of both environments, with the jobs that the handlers declare."""

from pathlib import Path

import pytest

from warren.testing import load_jobs

JOBS = Path(__file__).parents[1] / "jobs"


@pytest.mark.parametrize("environment", ["staging", "production"])
def test_the_jobs_can_be_applied(environment: str) -> None:
    jobs = load_jobs(JOBS / f"{environment}.yaml", handlers="acme_jobs.handlers", app="shop")

    assert not jobs.problems
    assert jobs.names == ["shop/load-orders", "shop/orders.tidy"]


def test_orders_are_loaded_at_two_before_the_feeds_are_tidied() -> None:
    jobs = load_jobs(JOBS / "production.yaml", handlers="acme_jobs.handlers", app="shop")

    [loaded] = jobs.fires("load-orders", "2026-12-01")
    [tidied] = jobs.fires("orders.tidy", "2026-12-01")

    assert (f"{loaded:%H:%M}", f"{tidied:%H:%M}") == ("02:00", "04:00")
