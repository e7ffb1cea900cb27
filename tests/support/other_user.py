"""Lets other users read the files that the tests run from, in a separate mount namespace.

For example, nobody else can reach an interpreter below /root. Nothing changes outside of it.
"""

import os
import site
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

#: Tells a test that it runs inside the namespace.
MARK = "TEST_IN_THE_OPEN"
ROOT = Path(__file__).parents[2]
#: The paths that job processes import from; Debian names some that do not exist.
NEEDED = (
    ROOT,
    Path(sys.executable).resolve(),
    *(path for path in map(Path, site.getsitepackages()) if path.exists()),
)


def closed_folders(paths: Iterable[Path] = NEEDED) -> set[Path]:
    """Return the folders above these paths that other users cannot enter."""
    return {place for path in paths for place in path.parents if not place.stat().st_mode & 0o001}


def pytest_in_the_open(
    *arguments: str, capabilities: Collection[str]
) -> subprocess.CompletedProcess[str]:
    """Run pytest where the closed folders contain only what is needed, readable by all.

    It runs as root with only these capabilities (`setuid`, for example).
    """
    with tempfile.TemporaryDirectory() as staging:
        steps = [
            step
            for number, folder in enumerate(sorted(closed_folders()))
            for step in _steps(folder, Path(staging) / str(number))
        ]
        kept = "".join(f",+{each}" for each in capabilities)
        bound = ("setpriv", f"--bounding-set=-all{kept}", "--inh-caps=-all", "--no-new-privs")
        script = " && ".join([*steps, 'exec "$@"'])
        pytest = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments)
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *bound, *pytest],
            cwd=ROOT,
            env=os.environ | {MARK: "capabilities"},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )


def _steps(folder: Path, aside: Path) -> list[str]:
    kept = {path.relative_to(folder).parts[0] for path in NEEDED if path.is_relative_to(folder)}
    binds = [
        f"mkdir '{folder}/{name}' && mount --rbind '{aside}/{name}' '{folder}/{name}'"
        for name in sorted(kept)
    ]
    return [
        f"mkdir '{aside}'",
        f"mount --rbind '{folder}' '{aside}'",
        f"mount -t tmpfs -o mode=755 none '{folder}'",
        *binds,
    ]
