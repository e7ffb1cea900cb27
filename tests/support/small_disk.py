"""A disk of a few megabytes: a tmpfs, if this machine allows mounting one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a tmpfs of `size` bytes at a folder; skip the test if mounting is not permitted."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is a tmpfs, which only root may mount")
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk is a tmpfs, which cannot be mounted here: {mounted.stderr}")
    try:
        yield folder
    finally:
        # Lazily, so that it works even if a failed test left files open.
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Use up all free space of a folder's disk, as another program might; return the file."""
    path = folder / "somebody-elses"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 65_536):
                pass
        except OSError:
            return path
    raise AssertionError("expected the disk to be full")
