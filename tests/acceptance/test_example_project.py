"""The example project: its own tests pass, and its types are sound for users of Warren."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from warren.jobfile.reader import read_job_files
from warren.jobfile.sources import read_sources
from warren.scheduler.jobs.new_run import sample_param

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "acme"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy, so that nothing is written beside the original."""
    shutil.copytree(PROJECT, tmp_path / "acme")
    return tmp_path / "acme"


def run(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_tests_of_the_project_pass(project: Path) -> None:
    done = run(project, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")

    assert done.returncode == 0, done.stdout
    assert " skipped" not in done.stdout


def test_the_project_is_typed_for_mypy(project: Path) -> None:
    # An editable install is no package to mypy, so it gets our sources, checked elsewhere.
    done = run(project, "mypy", "--follow-imports=silent", MYPYPATH=str(ROOT))

    assert done.returncode == 0, done.stdout


def test_the_jobs_of_both_environments_can_be_applied(project: Path) -> None:
    more = ["--from", "acme_jobs.handlers", "--app", "shop"]
    for environment in ("staging", "production"):
        file = f"jobs/{environment}.yaml"
        done = run(project, "warren", "jobs", "check", file, *more, PYTHONPATH="src")

        assert (done.returncode, done.stdout) == (0, "2 jobs, no problems\n"), done.stderr


def test_production_loads_the_day_of_each_run() -> None:
    christmas_ms = int(datetime(2026, 12, 24, 1, tzinfo=UTC).timestamp() * 1_000)
    sources = read_sources([PROJECT / "jobs" / "production.yaml"])

    [spec] = read_job_files(sources, now_ms=christmas_ms).specs

    assert sample_param(spec, christmas_ms, calendars={}) == '{"day": "2026-12-24"}'


@pytest.mark.release
def test_the_project_is_typed_for_pyright(project: Path, tmp_path: Path) -> None:
    """Pyright comes from PyPI and needs Node.js; it reads a copy of Warren as users install it."""
    shutil.copytree(ROOT / "warren", tmp_path / "site" / "warren")
    tool = str(tmp_path / "pyright")
    install = ["pip", "install", "--quiet", "--target", tool, "pyright>=1.1.400,<2"]
    assert run(project, *install).returncode == 0
    settings = {
        "include": ["src", "tests"],
        "extraPaths": [str(tmp_path / "site"), "src"],
        "venvPath": str(Path(sys.prefix).parent),
        "venv": Path(sys.prefix).name,
        "typeCheckingMode": "strict",
    }
    (project / "pyrightconfig.json").write_text(json.dumps(settings))

    done = run(project, "pyright", PYTHONPATH=tool)

    assert done.returncode == 0, done.stdout
