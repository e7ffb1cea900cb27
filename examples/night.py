"""The jobs of a flow: `warren up --jobs examples/night.py --apply examples/night.yaml`.

What a handler returns, the nodes after it can name.
"""

import random
import time
from typing import Any

from warren import JobContext, job

REGIONS = ("north", "south", "east", "west")


@job("night.extract")
def extract(context: JobContext) -> dict[str, Any]:
    """Fetch the orders of a day, a file for each region."""
    work(1.5)
    return {"rows": 4_000, "files": [f"{context.run_date}-{region}.csv" for region in REGIONS]}


@job("night.load")
def load(context: JobContext) -> dict[str, Any]:
    """Load the files. The first attempt finds the warehouse locked."""
    work(2)
    if context.attempt == 0:
        context.fail("the warehouse is locked")
    return {"loaded": context.param}


@job("night.part")
def part(context: JobContext) -> dict[str, Any]:
    """Add up the orders of one file, which is the param."""
    work(random.uniform(1, 4))
    return {"file": context.param, "orders": 1_000}


@job("night.report")
def report(context: JobContext) -> str:
    """Say what was added up."""
    work(1)
    return f"report for {context.run_date}: {context.param}"


def work(seconds: float) -> None:
    """Take some time, as real work would."""
    print(f"working for {seconds:.1f} s")
    time.sleep(seconds)
