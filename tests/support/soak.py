"""Runs a soak as its make target does."""

import sys
from pathlib import Path

from tests.support.command import Command

_ROOT = Path(__file__).parents[2]


def soaked(folder: Path, *arguments: str) -> str:
    """Run a soak, whose verdict must be good; return what it printed."""
    env = {"PYTHONPATH": str(_ROOT), "TMPDIR": str(folder)}
    words = ("-m", "benchmarks.soak", "--slots", "8", *arguments)
    with Command(*words, folder=folder, env=env, program=Path(sys.executable)) as soak:
        status = soak.wait(600.0)
        printed = soak.output.read_text()
    assert status == 0, printed
    return printed
