"""Lets another user read what the tests run from, in a mount namespace of its own.

An interpreter below /root, say, is out of everybody's reach; outside the namespace it stays so.
"""

import os
import site
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

#: Tells a test that it runs in here.
MARK = "TEST_IN_THE_OPEN"
ROOT = Path(__file__).parents[2]
#: What a job process imports from.
NEEDED = (ROOT, Path(sys.executable).resolve(), *map(Path, site.getsitepackages()))


def closed_folders(paths: Iterable[Path] = NEEDED) -> set[Path]:
    """Return the folders above these paths that others cannot pass."""
    return {place for path in paths for place in path.parents if not place.stat().st_mode & 0o001}


def pytest_in_the_open(
    *arguments: str, capabilities: Collection[str]
) -> subprocess.CompletedProcess[str]:
    """Run pytest where the closed folders hold only what is needed, for everybody.

    It runs as root with these capabilities (`setuid`, say) and no other.
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
