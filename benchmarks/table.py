"""The measured figures: each line is printed at once, and saved as JSON."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

#: Widths of the columns in characters.
WIDTHS = (58, 24, 44, 14)


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str = ""
    ratio: str = ""
    goal: str = ""


@dataclass
class Table:
    """The lines so far, and further facts by name."""

    machine: str
    rows: list[Row] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, rows: Iterable[Row]) -> None:
        """Print and store lines."""
        for row in rows:
            self.rows.append(row)
            _print(row)

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [row._asdict() for row in self.rows]
        content = {"machine": self.machine, "rows": rows, **self.facts}
        path.write_text(json.dumps(content, indent=1) + "\n")


def _print(row: Row) -> None:
    cells = (cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True))
    print("  ".join(cells).rstrip(), flush=True)
