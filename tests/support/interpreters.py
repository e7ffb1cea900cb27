"""The interpreters of scripts: installed, missing, or replaced by bash."""

import os
import shutil
from pathlib import Path

import pytest

#: Debian has no PowerShell, so bash runs these scripts in tests.
_STUB = '#!/bin/sh\nexec bash "$@"\n'


def require(program: str) -> None:
    """Skip the test if the interpreter is missing; in CI it must be installed."""
    if shutil.which(program):
        return
    reason = f"{program} is not installed: make services"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def stand_in(program: str, folder: Path) -> Path:
    """Create a program of this name that is bash, in a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / program
    path.write_text(_STUB)
    path.chmod(0o755)
    return folder
