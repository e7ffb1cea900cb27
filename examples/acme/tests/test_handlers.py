"""The handlers alone, in the test's own process."""

from datetime import date
from decimal import Decimal
from pathlib import Path

from acme_jobs.handlers import BadFeed, LoadParams, LoadResult, TidyParams, load, tidy

from warren import RetryLater
from warren.testing import run


def test_a_day_is_loaded() -> None:
    done = run(load, params=LoadParams(day=date(2026, 12, 1)))

    assert done.outcome == "SUCCEEDED"
    assert done.returned == LoadResult(orders=3, total=Decimal("20.00"), currency="EUR")


def test_only_some_shops_are_loaded() -> None:
    done = run(load, param='{"day": "2026-12-01", "shops": ["hamburg"], "dry_run": true}')

    assert done.returned == LoadResult(orders=1, total=Decimal("5.00"), currency="EUR")
    assert done.lines[0].endswith("1 orders, not stored")


def test_a_feed_that_is_not_there_yet_is_tried_again_later() -> None:
    done = run(load, params=LoadParams(day=date(2026, 12, 2)))

    assert isinstance(done.error, RetryLater)
    assert done.message == "the feed of 2026-12-02 is not there yet"


def test_a_feed_without_amounts_is_not_tried_again(feeds: Path) -> None:
    (feeds / "2026-12-03.csv").write_text("shop,amount\nberlin,ten\n")

    done = run(load, params=LoadParams(day=date(2026, 12, 3)))

    assert isinstance(done.error, BadFeed)


def test_old_feeds_are_deleted(feeds: Path) -> None:
    (feeds / "2026-10-01.csv").touch()

    done = run(tidy, params=TidyParams(days=30), at="2026-12-01T04:00Z")

    assert done.returned == 1
    assert not (feeds / "2026-10-01.csv").exists()
