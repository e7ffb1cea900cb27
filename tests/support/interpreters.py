"""The interpreters that scripts need: there, absent, or stood in for."""

import os
import shutil
from pathlib import Path

import pytest

#: Debian has no PowerShell: bash runs what such a script holds here.
_STUB = '#!/bin/sh\nexec bash "$@"\n'


def require(program: str) -> None:
    """Skip the test on a machine without the interpreter, except in CI: there it must be."""
    if shutil.which(program):
        return
    reason = f"{program} is not installed: make services"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def stand_in(program: str, folder: Path) -> Path:
    """Put a program of this name, which is bash, into a folder; return the folder."""
    folder.mkdir(exist_ok=True)
    path = folder / program
    path.write_text(_STUB)
    path.chmod(0o755)
    return folder
