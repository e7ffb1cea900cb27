"""The handlers of app shop: they load each day's orders from a feed, and tidy up after it."""

import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from warren import JobContext, Retry, RetryLater, cron, job

#: The folder with a file for each day, such as 2026-12-01.csv.
FEED = "ACME_FEED"


class BadFeed(Exception):
    """A feed that no other try will make right."""


@dataclass
class LoadParams:
    """Which orders to load."""

    day: date
    shops: list[str] = field(default_factory=list[str])
    currency: Literal["EUR", "CHF"] = "EUR"
    dry_run: bool = False


@dataclass
class LoadResult:
    """What was loaded."""

    orders: int
    total: Decimal
    currency: str


@dataclass
class TidyParams:
    """How long to keep the feeds."""

    days: int = 30


@job(
    "orders.load",
    retry=Retry(3, delay=10, backoff="exponential", most="5m", never=(BadFeed,)),
)
def load(context: JobContext, params: LoadParams) -> LoadResult:
    """Load a day's orders, of all shops or of some."""
    path = feed() / f"{params.day}.csv"
    if not path.exists():
        raise RetryLater("5m", f"the feed of {params.day} is not there yet")
    amounts = list(read_amounts(path, params.shops))
    if not amounts:
        context.skip(f"no orders on {params.day}")
    context.log("%s orders%s", len(amounts), ", not stored" if params.dry_run else "")
    return LoadResult(orders=len(amounts), total=sum(amounts, Decimal()), currency=params.currency)


@job(
    "orders.tidy",
    schedule=cron("0 0 4 * * ?", zone="Europe/Berlin"),
    timeout="10m",
    param=TidyParams(days=30),
    tags=["housekeeping"],
)
def tidy(context: JobContext, params: TidyParams) -> int:
    """Delete old feeds; return how many."""
    oldest = f"{context.scheduled_at.date() - timedelta(days=params.days)}"
    old = [path for path in sorted(feed().glob("????-??-??.csv")) if path.stem < oldest]
    for number, path in enumerate(old, 1):
        path.unlink()
        context.progress(number, len(old), path.name)
    return len(old)


def feed() -> Path:
    """Return the folder of the feeds."""
    return Path(os.environ.get(FEED, "feed"))


def read_amounts(path: Path, shops: list[str]) -> Iterator[Decimal]:
    """Yield the amounts of a feed; of some shops, if any are named."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if shops and row["shop"] not in shops:
                continue
            try:
                yield Decimal(row["amount"])
            except InvalidOperation as error:
                raise BadFeed(f"{path.name}: no amount: {row['amount']!r}") from error
