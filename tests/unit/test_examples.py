"""What the examples' handlers do with orders that do not add up."""

import csv
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from warren.executor.handlers.context import JobContext, JobFailed
from warren.executor.handlers.handler_registry import Handlers, load_handlers

EXAMPLES = Path(__file__).parents[2] / "examples"
TICK = datetime(2026, 11, 20, 10, 0, 15, tzinfo=UTC)


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handlers]:
    """The examples' handlers, in a folder with ten orders of a known sum."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    orders = tmp_path / ".warren/examples/orders.csv"
    orders.parent.mkdir(parents=True)
    with orders.open("w", newline="") as file:
        rows = [(number, "2026-01-05T10:00", "north", 100 + number) for number in range(10)]
        csv.writer(file).writerows([("order", "placed", "region", "cents"), *rows])
    yield load_handlers([str(EXAMPLES / "handlers.py")])
    for name in set(sys.modules) - before:
        del sys.modules[name]


def run(handlers: Handlers, name: str, *, shard: int = 0, shards: int = 1, param: str = "") -> str:
    context = JobContext(
        job_id=1,
        run_id=1,
        attempt=0,
        kind="CRON",
        param=param,
        shard_index=shard,
        shard_total=shards,
        scheduled_at=TICK,
    )
    return str(handlers[name].function(context))


def parts() -> list[Path]:
    return sorted(Path(".warren/examples/parts").glob("*/shard-*.json"))


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 12])
def test_parts_of_any_number_of_shards_make_the_whole(handlers: Handlers, shards: int) -> None:
    for shard in range(shards):
        run(handlers, "orders.part", shard=shard, shards=shards)

    merged = run(handlers, "orders.merge")

    assert merged == f"10 orders, 10.45 in total, from {shards} parts"
    assert run(handlers, "orders.totals") == "10 orders, 10.45 in total"


def test_shard_that_is_tried_again_counts_once(handlers: Handlers) -> None:
    for shard in (0, 1, 1, 2, 0):
        run(handlers, "orders.part", shard=shard, shards=3)

    assert run(handlers, "orders.merge") == "10 orders, 10.45 in total, from 3 parts"


def test_missing_part_fails_the_merge(handlers: Handlers) -> None:
    for shard in range(3):
        run(handlers, "orders.part", shard=shard, shards=3)
    parts()[1].unlink()

    with pytest.raises(JobFailed, match="2 parts of 3"):
        run(handlers, "orders.merge")


def test_part_that_is_a_cent_wrong_fails_the_merge(handlers: Handlers) -> None:
    for shard in range(3):
        run(handlers, "orders.part", shard=shard, shards=3)
    part = json.loads(parts()[2].read_text())
    part["totals"]["north 2026-01"] += 1
    parts()[2].write_text(json.dumps(part))

    with pytest.raises(JobFailed, match=r"come to 10 orders, 10\.46 in total, but the whole"):
        run(handlers, "orders.merge")


def test_no_part_at_all_is_explained(handlers: Handlers) -> None:
    with pytest.raises(JobFailed, match="order-parts starts this job"):
        run(handlers, "orders.merge")


def test_region_without_orders_is_counted_as_none(handlers: Handlers) -> None:
    assert run(handlers, "orders.totals", param="south") == "0 orders, 0.00 in total"
