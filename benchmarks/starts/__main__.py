"""Prints what the start of a job process costs: `python -m benchmarks.starts [STARTS]`."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.starts.costs import Cost


def _line(what: str, cost: "Cost") -> str:
    return (
        f"{what:24}{cost.us:8,.0f} µs = {cost.parent_us:5,.0f} + {cost.child_us:5,.0f}"
        f"{cost.faults:10,.0f} faults = {cost.parent_faults:4,.0f} + {cost.child_faults:4,.0f}"
    )


def main() -> None:
    """Print what a start costs, and how many times as much as a bare one."""
    # The zygote imports this module, and an executor's imports nothing of what is imported here.
    from benchmarks.starts.costs import ROUNDS, measure  # noqa: PLC0415 - see above

    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("starts", type=int, nargs="?", default=200, help="of each, per round")
    theirs, ours = measure(parser.parse_args().starts)
    # The round with the least time had the fewest neighbours.
    bare_cost, own_cost = (min(costs, key=lambda cost: cost.us) for costs in (theirs, ours))
    print("the cheapest of", ROUNDS, "rounds, who forks + who is forked, per start")
    print(_line("bare multiprocessing", bare_cost))
    print(_line("job process", own_cost))
    ratio, faults = own_cost.us / bare_cost.us, own_cost.faults / bare_cost.faults
    print(f"{'times a bare one':24}{ratio:8.2f}{'':18}{faults:15.2f}")


if __name__ == "__main__":
    main()
