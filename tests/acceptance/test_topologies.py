"""Two minutes of `make soak` on each set-up of docs/high-availability.md, one at a time."""

import re
from pathlib import Path

import pytest

from benchmarks.soak.topology import TOPOLOGIES
from tests.support.soak import soaked

pytestmark = pytest.mark.release


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name != "single"])
def test_two_minutes_of_faults_lose_and_double_nothing(tmp_path: Path, topology: str) -> None:
    printed = soaked(tmp_path, "--topology", topology, "--minutes", "2", "--seed", "4")

    assert re.search(r"^ticks=\d{3,} .* filled=(72|288) lost=0 ", printed, re.MULTILINE), printed
    assert len(re.findall(r"^ +\d+\.\d s: ", printed, re.MULTILINE)) > 5, printed
