"""Jobs with real work to do, for `make up` and to start your own from.

What a handler prints or logs lands in its run's log; what it returns is the run's message.
"""

import csv
import json
import logging
import os
import random
import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from warren import JobContext, job

FOLDER = Path(".warren/examples")
ORDERS = FOLDER / "orders.csv"
ORDER_COUNT = 100_000
REGIONS = ("north", "east", "south", "west", "overseas")

log = logging.getLogger("examples")


@job("orders.totals")
def order_totals(context: JobContext) -> str:
    """Add up 100,000 orders by region and month, and write the totals beside them.

    The param names one region; without it all are counted.
    """
    ensure_orders()
    totals: Counter[str] = Counter()
    count = 0
    with ORDERS.open(newline="") as file:
        for order in csv.DictReader(file):
            if context.param in ("", order["region"]):
                totals[f"{order['region']} {order['placed'][:7]}"] += int(order["cents"])
                count += 1
    for name, cents in sorted(totals.items()):
        print(f"{name:20} {cents / 100:>16,.2f}")
    write_whole(FOLDER / "totals.json", json.dumps(totals, indent=1, sort_keys=True))
    return f"{count:,} orders, {sum(totals.values()) / 100:,.2f} in total"


@job("host.load")
def host_load(context: JobContext) -> str:
    """Append the host's load averages to a file, one line a run."""
    one, five, fifteen = os.getloadavg()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "load.csv").open("a") as file:
        file.write(f"{context.scheduled_at.isoformat()},{one},{five},{fifteen}\n")
    return f"load {one:.2f} {five:.2f} {fifteen:.2f}"


@job("stubborn")
def stubborn(context: JobContext) -> None:
    """Hang and ignore SIGTERM, as a program stuck in foreign code does; its timeout ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log.warning("attempt %d hangs now and ignores SIGTERM", context.attempt + 1)
    while True:
        time.sleep(3600)


def ensure_orders() -> None:
    """Make the orders once; they are the same on every machine."""
    if ORDERS.exists():
        return
    log.info("making %s with %d orders", ORDERS, ORDER_COUNT)
    chance = random.Random(42)
    first = datetime(2026, 1, 1, tzinfo=UTC)
    lines = ["order,placed,region,cents"]
    for number in range(1, ORDER_COUNT + 1):
        placed = first + timedelta(minutes=chance.randrange(365 * 24 * 60))
        cents = round(chance.lognormvariate(8.5, 0.8))
        lines.append(f"{number},{placed:%Y-%m-%dT%H:%M},{chance.choice(REGIONS)},{cents}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_whole(ORDERS, "\n".join(lines) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file so that nobody ever reads half of it."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text)
    part.replace(path)
