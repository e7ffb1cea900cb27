"""Every row that real Quartz answered."""

import csv
import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from warren.scheduler.cron.expression import next_fires

CASES = Path(__file__).parents[2] / "data" / "quartz_cron_cases.tsv"


def rows() -> list[dict[str, str]]:
    with CASES.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def fires(row: dict[str, str]) -> list[datetime]:
    zone = ZoneInfo(row["timezone"])
    after = datetime.fromisoformat(row["after_local"]).replace(tzinfo=zone)
    return next_fires(row["expression"], after=after, timezone=row["timezone"], count=5)


def name(row: dict[str, str]) -> str:
    return f"{row['timezone']} {row['after_local']} {row['expression']}"


def test_table_is_whole() -> None:
    statuses = [row["status"] for row in rows()]

    assert (statuses.count("OK"), statuses.count("ERR")) == (762, 12)


def test_fires_are_those_of_quartz() -> None:
    expected, got = {}, {}
    for row in rows():
        if row["status"] == "OK":
            texts = [text for text in row["next_fires"].split(",") if text]
            expected[name(row)] = [datetime.fromisoformat(text).isoformat() for text in texts]
            got[name(row)] = [at.isoformat() for at in fires(row)]

    assert {row: at for row, at in got.items() if at != expected[row]} == {}


def test_what_quartz_refuses_is_refused_in_one_line() -> None:
    said = {}
    for row in rows():
        if row["status"] == "ERR":
            with pytest.raises(ValueError, match="expected") as refused:
                fires(row)
            said[name(row)] = str(refused.value)

    line = re.compile(r"expected [^\n]+, got: [^\n]+")
    assert {row: words for row, words in said.items() if not line.fullmatch(words)} == {}
