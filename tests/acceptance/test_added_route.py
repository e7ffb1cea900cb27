"""A route that another distribution adds, from the job file to the run."""

import json
import tomllib
from pathlib import Path

import pytest

from tests.support.command import Command, run_program, run_warren
from tests.support.eventually import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "sticky_route"
HANDLERS = """\
from warren import job


@job("quick")
def quick(context):
    return "done"
"""
JOBS = """\
apps: [{name: shop}]
jobs:
  - {name: sticks, app: shop, schedule: {every: 1}, handler: quick, route: STICKY, enabled: true}
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The example as `pip install` leaves it: its module, and its entry points beside it."""
    points = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    info = tmp_path / "site" / "sticky_route-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sticky-route\nVersion: 1.0.0\n")
    lines = [f"{name} = {leads_to}" for name, leads_to in points["warren.routes"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[warren.routes]", *lines]))
    module = (EXAMPLE / "sticky_route.py").read_text()
    (tmp_path / "site" / "sticky_route.py").write_text(module)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return {"PYTHONPATH": str(tmp_path / "site")}


def test_a_job_of_an_added_route_stays_with_its_executor(
    tmp_path: Path, env: dict[str, str]
) -> None:
    def runs() -> list[dict[str, str]]:
        done = run_warren("runs", "list", "--status", "SUCCEEDED", "--json", folder=tmp_path)
        return [json.loads(line) for line in done.stdout.splitlines()]

    arguments = ("up", "--jobs", "handlers.py", "--apply", "jobs.yaml")
    with Command(*arguments, folder=tmp_path, env=env) as command:
        command.wait_for("Ctrl-C stops everything")
        eventually(lambda: len(runs()) >= 3, every=0.3)

    *later, first = runs()
    assert {run["address"] for run in later} == {first["address"]}
    assert first["trigger_message"].endswith(f"STICKY: {first['address']}, first run")
    assert later[0]["trigger_message"].endswith(f"STICKY: {first['address']}, as before")


def test_it_is_unknown_where_it_is_not_installed(tmp_path: Path, env: dict[str, str]) -> None:
    database = {"WARREN_DATABASE_URL": f"sqlite:///{tmp_path}/w.db"}
    run_warren("db", "upgrade", folder=tmp_path, env=database)

    refused = run_warren("jobs", "apply", "jobs.yaml", folder=tmp_path, env=database)
    accepted = run_program("jobs", "apply", "jobs.yaml", folder=tmp_path, env=database | env)

    assert refused.returncode == 1
    assert "jobs.yaml:3: unknown route 'STICKY'; expected FIRST, LAST" in refused.stderr
    assert accepted.returncode == 0, accepted.stderr


def test_check_names_an_added_route_that_cannot_be_had(tmp_path: Path, env: dict[str, str]) -> None:
    good = run_program("check", folder=tmp_path, env=env)
    (tmp_path / "site" / "sticky_route.py").write_text("raise RuntimeError('half installed')\n")
    bad = run_program("check", folder=tmp_path, env=env)

    assert "the ten built-in ones and STICKY" in good.stdout + good.stderr
    assert "STICKY (sticky_route:STICKY): RuntimeError: half installed" in bad.stdout + bad.stderr
