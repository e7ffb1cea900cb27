"""What became of each thing at the source: the same here, different, stopped or left out."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How a thing compares with what it was at the source."""

    SAME = "same"
    DIFFERS = "differs"
    STOPPED = "stopped"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report: where at the source, which value, and what became of it."""

    verdict: Verdict
    table: str
    id: int
    column: str = ""
    value: str = ""
    words: str = ""


def counted(findings: Iterable[Finding]) -> dict[Verdict, int]:
    """Return how many findings there are of each verdict."""
    found = Counter(finding.verdict for finding in findings)
    return {verdict: found[verdict] for verdict in Verdict}
