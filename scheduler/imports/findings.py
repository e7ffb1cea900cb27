"""The import report: whether each item of the source is the same here, different, or left out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How an imported item compares with the source."""

    SAME = "same"
    DIFFERS = "differs"
    STOPPED = "stopped"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report: table, id, column and value at the source, and the verdict."""

    verdict: Verdict
    table: str
    id: int
    column: str = ""
    value: str = ""
    words: str = ""


def counted(findings: Iterable[Finding]) -> dict[Verdict, int]:
    """Return the number of findings by verdict."""
    counts = Counter(finding.verdict for finding in findings)
    return {verdict: counts[verdict] for verdict in Verdict}
