"""Builds our wheel and sdist from a copy of the sources, and environments to install them in."""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.processes import basic_environment

ROOT = Path(__file__).parents[2]
PACKAGES = ("admin_web", "broker", "executor", "resources", "scheduler", "sql", "warren")
FILES = (
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
)
#: Every package lies in a folder of its own; `warren` has a link to each of the others.
NOT_COPIED = shutil.ignore_patterns("__pycache__", "node_modules", "bundle")
BUNDLE = "admin_web/static/bundle"
#: A small package without dependencies, which we need anyway, to test whether PyPI is reachable.
PROBE = "tzdata"


def copy_sources(folder: Path) -> Path:
    """Return a copy of the packaged files, with console scripts that need no npm."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, symlinks=True, ignore=NOT_COPIED)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/build-console", folder / "scripts")
    (folder / BUNDLE).mkdir()
    (folder / BUNDLE / "manifest.json").write_text("{}")
    (folder / BUNDLE / "console-ABC.js").write_text("1;")
    return folder


def build(sources: Path, into: Path, *what: str) -> None:
    """Build with the installed setuptools, so that no network is needed."""
    command = ["-m", "build", "--no-isolation", *what, "--outdir", str(into), str(sources)]
    run(Path(sys.executable), *command, folder=into.parent)


def run(
    program: Path, *arguments: str, folder: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program; with `check`, show its output if it fails."""
    done = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env=basic_environment() | {"HOME": str(Path.home())},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def contents(wheel: Path) -> dict[str, str]:
    """Return the files of a wheel with digests, without its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if not name.endswith("/RECORD")
        }


def members(sdist: Path) -> set[str]:
    """Return the paths in an sdist, without its folder."""
    with tarfile.open(sdist) as archive:
        return {one.name.partition("/")[2] for one in archive if one.isfile()}


def metadata(wheel: Path) -> Message:
    """Return a wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def lowest_dependencies() -> list[str]:
    """Return the oldest version of each base library that this Python may have."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = [
        one for one in map(Requirement, declared) if one.marker is None or one.marker.evaluate()
    ]
    return [re.sub(r".*>=([0-9.]+).*", rf"{one.name}==\1", str(one.specifier)) for one in ours]


def skip_without_pypi(folder: Path) -> None:
    """Skip the test, even in CI, if no package index is reachable."""
    arguments = ("-m", "pip", "download", "-q", "--no-cache-dir", "--no-deps", "-d", str(folder))
    if run(Path(sys.executable), *arguments, PROBE, folder=folder, check=False).returncode:
        pytest.skip("PyPI cannot be reached, so nothing can be installed from it")


def make_environment(folder: Path, packages: Sequence[str], *options: str) -> Path:
    """Return the `bin` of a new environment with only these packages and their dependencies.

    `options` are more arguments of `pip install`.
    """
    here = Path(sys.executable)
    run(here, "-m", "venv", "--without-pip", str(folder), folder=folder.parent)
    into = ("--python", str(folder / "bin/python"))
    pip = ("-m", "pip", *into, "install", "-q", "--disable-pip-version-check", "--no-input")
    run(here, *pip, *options, *packages, folder=folder.parent)
    return folder / "bin"
