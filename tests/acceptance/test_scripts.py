"""Scripts as a user meets them: a job file, a run, its log, a setting that says no."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.support.command import Command, run_warren

JOBS = """\
apps:
  - {name: shop}
jobs:
  - name: pack
    app: shop
    param: "two words"
    script:
      language: shell
      remark: first
      source: |-
        echo "packing $1"
        [ -z "${WARREN_SECRET:-}${WARREN_DATABASE_URL:-}" ]
"""


def told(folder: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """Return the JSON that a short command prints."""
    done = run_warren(*arguments, "--json", folder=folder)
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_script_of_a_job_file_runs_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOBS)
    arguments = ("up", "--apply", "jobs.yaml", "--executors", "1")
    secret = {"WARREN_SECRET": "x" * 40}
    with Command(*arguments, folder=tmp_path, env=secret | {"WARREN_GLUE": "shell"}) as command:
        command.wait_for("Ctrl-C stops everything")

        packed = told(tmp_path, "jobs", "trigger", "pack", "--wait")
        run = told(tmp_path, "runs", "show", str(packed["id"]))
        log = run_warren("runs", "log", str(packed["id"]), folder=tmp_path)
        job = told(tmp_path, "jobs", "show", "pack")
        facts = run_warren("jobs", "show", "pack", folder=tmp_path).stdout
        command.send(signal.SIGINT)
        assert command.wait() == 0

    assert "no living executor" not in command.text()
    assert (packed["status"], run["script_version"]) == ("SUCCEEDED", job["script_version"])
    assert log.stdout == "packing two words\n"
    assert (job["script_language"], job["script_remark"], job["handler"]) == ("shell", "first", "")
    assert (run["script_number"], job["script_number"]) == (1, 1)
    assert "shell, version 1: first" in facts
    assert not list(tmp_path.glob(".warren/state/*/gluesource/*"))
