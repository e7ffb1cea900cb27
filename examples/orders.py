"""The file of 100,000 orders that the examples use: created once, the same on every machine."""

import csv
import fcntl
import logging
import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

FOLDER = Path(".warren/examples")
ORDERS = FOLDER / "orders.csv"
ORDER_COUNT = 100_000
REGIONS = ("north", "east", "south", "west", "overseas")

log = logging.getLogger("examples")


def sum_up(*, region: str = "", part: int = 0, parts: int = 1) -> tuple[int, Counter[str]]:
    """Count the orders and add up their cents by region and month.

    With a region, only its orders. With parts, only every `parts`-th row, from row `part` on.
    """
    orders = ensure_there()
    totals: Counter[str] = Counter()
    count = 0
    with orders.open(newline="") as file:
        for order in islice(csv.DictReader(file), part, None, parts):
            if region in ("", order["region"]):
                totals[f"{order['region']} {order['placed'][:7]}"] += int(order["cents"])
                count += 1
    return count, totals


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically, so that nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}")
    half.write_text(text)
    half.replace(path)


def ensure_there() -> Path:
    """Return the file; if it is missing, one job creates it while the others wait."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "orders.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ORDERS.exists():
            log.info("making %s with %d orders", ORDERS, ORDER_COUNT)
            write_whole(ORDERS, _made())
    return ORDERS


def _made() -> str:
    chance = random.Random(42)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    lines = ["order,placed,region,cents"]
    for number in range(1, ORDER_COUNT + 1):
        placed = first + timedelta(minutes=chance.randrange(365 * 24 * 60))
        cents = round(chance.lognormvariate(8.5, 0.8))
        lines.append(f"{number},{placed:%Y-%m-%dT%H:%M},{chance.choice(REGIONS)},{cents}")
    return "\n".join(lines) + "\n"
