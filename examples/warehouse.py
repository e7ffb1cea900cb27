"""A small warehouse, loaded for one day at a time by the flow `nightly` of `examples/jobs.yaml`.

A line in the file `locked` of its folder locks the table of that region; `all` locks every table.
"""

import csv
import json
import shutil
import time
from pathlib import Path

from orders import FOLDER, ensure_there, write_whole

from warren import JobContext, job

WAREHOUSE = FOLDER / "warehouse"
LOCKED = WAREHOUSE / "locked"


@job("warehouse.extract")
def extract(context: JobContext) -> dict[str, object]:
    """Copy the orders of the run's date out of the file of all orders."""
    orders = ensure_there()
    with orders.open(newline="") as file:
        placed = f"2026-{context.run_date:%m-%d}"
        rows = [row for row in csv.DictReader(file) if row["placed"].startswith(placed)]
    write_whole(day(context) / "orders.json", json.dumps(rows))
    print(f"{len(rows)} orders of {placed}, asked for with {context.param}")
    return {"rows": len(rows)}


@job("warehouse.load")
def load(context: JobContext) -> dict[str, object]:
    """Sort the day's orders into a file for each region, and name the regions."""
    refuse_locked("all")
    rows = json.loads((day(context) / "orders.json").read_text())
    expected = int(context.param.split()[1])
    if len(rows) != expected:
        context.fail(f"{len(rows)} orders, but {expected} were extracted")
    regions = sorted({row["region"] for row in rows})
    for region in regions:
        part = [row for row in rows if row["region"] == region]
        write_whole(day(context) / f"{region}.json", json.dumps(part))
        print(f"{region:10} {len(part):>4} orders")
    return {"rows": len(rows), "regions": regions}


@job("warehouse.part")
def part(context: JobContext) -> dict[str, object]:
    """Add up the orders of the region in the param."""
    refuse_locked(context.param)
    rows = json.loads((day(context) / f"{context.param}.json").read_text())
    time.sleep(0.3)
    cents = sum(int(row["cents"]) for row in rows)
    print(f"{context.param}: {cents / 100:,.2f}")
    return {"region": context.param, "cents": cents}


@job("warehouse.mend")
def mend(context: JobContext) -> str:
    """Throw away what a failed load has left of the day, and unlock the tables."""
    shutil.rmtree(day(context), ignore_errors=True)
    LOCKED.unlink(missing_ok=True)
    return f"nothing is left of {context.run_date}, and no table is locked"


@job("warehouse.report")
def report(context: JobContext) -> str:
    """Write a line for the day: the sum of its parts, from the param."""
    cents = sum(each["cents"] for each in json.loads(context.param))
    write_whole(WAREHOUSE / "reports" / f"{context.run_date}.txt", f"{cents / 100:,.2f}\n")
    return f"{context.run_date}: {cents / 100:,.2f}"


def day(context: JobContext) -> Path:
    """Return the folder of the run's date."""
    return WAREHOUSE / str(context.run_date)


def refuse_locked(table: str) -> None:
    """Raise an error if a table is locked."""
    if LOCKED.exists() and table in LOCKED.read_text().split():
        raise PermissionError(f"locked: {table}; see {LOCKED}")
