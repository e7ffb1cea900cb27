"""Example jobs with real work to do, for `make up` and as a starting point for your own.

What a handler prints or logs goes into its run's log; what it returns is the run's message.
"""

import json
import logging
import os
import signal
import time
from collections import Counter
from pathlib import Path

import warehouse  # noqa: F401 - its handlers are loaded with these
from orders import FOLDER, sum_up, write_whole

from warren import JobContext, job

log = logging.getLogger("examples")


@job("orders.totals")
def order_totals(context: JobContext) -> str:
    """Add up the orders by region and month: of the region in the param, or of all."""
    count, totals = sum_up(region=context.param)
    print_totals(totals)
    return in_words(count, totals)


@job("orders.part")
def order_part(context: JobContext) -> str:
    """Add up this shard's part of the orders, and leave the result for `orders.merge`.

    All shards of a due time share its `scheduled_at`, and so do their retries and the job's child.
    """
    index, total = context.shard_index, context.shard_total
    count, totals = sum_up(part=index, parts=total)
    part = {"shards": total, "orders": count, "totals": totals}
    write_whole(parts_folder(context) / f"shard-{index}.json", json.dumps(part))
    return f"part {index + 1} of {total}: {in_words(count, totals)}"


@job("orders.merge")
def merge_orders(context: JobContext) -> str:
    """Merge the parts of all shards, and fail if they do not match the whole."""
    folder = parts_folder(context)
    parts = [json.loads(path.read_text()) for path in sorted(folder.glob("shard-*.json"))]
    if not parts:
        context.fail(f"no parts in {folder}: order-parts starts this job when all shards are done")
    if len(parts) != parts[0]["shards"]:
        context.fail(f"{len(parts)} parts of {parts[0]['shards']} in {folder}")
    count = sum(part["orders"] for part in parts)
    totals = sum((Counter(part["totals"]) for part in parts), Counter())
    if (count, totals) != sum_up():
        context.fail(f"the parts come to {in_words(count, totals)}, but the whole does not")
    print_totals(totals)
    write_whole(folder / "total.json", json.dumps(totals, indent=1, sort_keys=True))
    return f"{in_words(count, totals)}, from {len(parts)} parts"


@job("host.load")
def host_load(context: JobContext) -> str:
    """Append the host's load averages to a file, one line per run."""
    one, five, fifteen = os.getloadavg()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "load.csv").open("a") as file:
        file.write(f"{context.scheduled_at.isoformat()},{one},{five},{fifteen}\n")
    return f"load {one:.2f} {five:.2f} {fifteen:.2f}"


@job("third-time-lucky")
def third_time_lucky(context: JobContext) -> str:
    """Fail twice, like a request over a bad line, then succeed."""
    if context.attempt < 2:  # noqa: PLR2004 - the third attempt; they are counted from 0
        raise ConnectionError(f"attempt {context.attempt + 1}: the line is bad")
    return f"attempt {context.attempt + 1} came through"


@job("stubborn")
def stubborn(context: JobContext) -> None:
    """Hang and ignore SIGTERM, like a program stuck in native code; the timeout ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    log.warning("attempt %d now hangs and ignores SIGTERM", context.attempt + 1)
    while True:
        time.sleep(3600)


def parts_folder(context: JobContext) -> Path:
    """Return where the shards of a due time leave their parts."""
    return FOLDER / "parts" / f"{context.scheduled_at:%Y-%m-%dT%H-%M-%S.%f}"


def print_totals(totals: Counter[str]) -> None:
    """Print a line for each region and month."""
    for name, cents in sorted(totals.items()):
        print(f"{name:20} {cents / 100:>16,.2f}")


def in_words(count: int, totals: Counter[str]) -> str:
    """Return the number of orders and their total, as text."""
    return f"{count:,} orders, {sum(totals.values()) / 100:,.2f} in total"
