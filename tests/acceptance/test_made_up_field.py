"""A field of a job that is declared once is at each door."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
DOORS = HERE / "doors_of_a_made_up_field.py"
DECLARED = HERE.parent / "support/made_up_field"


def test_a_made_up_field_is_at_each_door() -> None:
    # With plain asserts, because pytest reads modules whose asserts it rewrites by itself.
    options = ("-q", "--assert=plain", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(DOORS)],
        env=os.environ | {"PYTHONPATH": str(DECLARED)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
