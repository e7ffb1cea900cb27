"""Writes measured figures into the documentation: `python -m benchmarks.page [JSON]`."""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rates import Rate, cpu_us

PAGE = Path("docs/performance.md")
JSON = Path("build/bench.json")

#: Processes that do the same work, in the bare pipeline and in Warren.
_SAME_WORK = {
    "MariaDB": ("mariadbd", "mariadbd"),
    "RabbitMQ": ("RabbitMQ", "RabbitMQ"),
    "scheduler (bare: publishing, finishing)": ("publishing, finishing", "scheduler"),
    "executor (bare: running)": ("running", "executor"),
    "zygote and job processes (bare: workers)": ("workers", "zygote, job processes"),
    "the benchmark itself": ("", "benchmark"),
}


def main() -> None:
    """Replace the page's figures by those of a file written by `make bench`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("json", type=Path, nargs="?", default=JSON, help=f"default {JSON}")
    measured = json.loads(parser.parse_args().json.read_text())
    PAGE.write_text(filled(PAGE.read_text(), measured))
    print(f"{PAGE} has the figures of: {measured['machine']}")


def filled(page: str, measured: dict[str, Any]) -> str:
    """Return a page with the figures filled in.

    Raises:
        ValueError: the page has no place for a figure, or another database was measured.

    """
    if "MariaDB" not in measured["machine"]:
        raise ValueError(f"expected figures of MariaDB, got: {measured['machine']}")
    page = _put(page, "figures", f"```text\n{_figures(measured)}\n```")
    return _put(page, "costs", _costs(measured["throughput"][0]))


def _put(page: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    place = re.compile(f"{begin}\n.*?{end}", re.DOTALL)
    if not place.search(page):
        raise ValueError(f"expected the page to have {begin!r} and {end!r}")
    return place.sub(lambda _: f"{begin}\n{text}\n{end}", page)


def _figures(measured: dict[str, Any]) -> str:
    """Return the table without the costs of single processes, which have their own table."""
    rows = [row for row in measured["rows"] if not row["what"].startswith("  ")]
    cells = [(row["what"], row["measured"], row["ratio"]) for row in rows]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(3)]
    lines = [_line(row, widths) for row in cells]
    return "\n".join([measured["machine"], *lines])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _costs(throughput: dict[str, Any]) -> str:
    """Return a table of microseconds per run by process, of the bare pipelines and of Warren."""
    bare, packed, ours = (
        cpu_us([Rate(**rate) for rate in throughput[name]]) for name in ("single", "packed", "ours")
    )
    rows = [
        (what, bare.get(theirs, 0.0), packed.get(theirs, 0.0), ours.get(own, 0.0))
        for what, (theirs, own) in _SAME_WORK.items()
    ]
    sums = ("together", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    lines = [
        f"| {what} | {one:.0f} | {two:.0f} | {us:.0f} |" for what, one, two, us in (*rows, sums)
    ]
    head = ["| process | bare pipeline | bare pipeline, packed | Warren |", "|---|---|---|---|"]
    return "\n".join([*head, *lines])


if __name__ == "__main__":
    main()
