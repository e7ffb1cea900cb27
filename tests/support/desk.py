"""A user's folder with a database, and `warren` as it is typed there."""

import json
from pathlib import Path
from subprocess import CompletedProcess

from tests.support.command import run_warren
from tests.support.schemas import SQLiteSchema
from tests.support.stored_rows import Rows


class Desk:
    """A folder with a database, and the command in it."""

    def __init__(self, folder: Path, schema: SQLiteSchema) -> None:
        self.folder = folder
        self.env = {"WARREN_DATABASE_URL": schema.copy(folder / "warren.db"), "TZ": "UTC"}
        self.rows = Rows(self.env["WARREN_DATABASE_URL"])

    def warren(self, *arguments: str, status: int = 0) -> CompletedProcess[str]:
        """Run a command that ends with this status, and never with a stack trace."""
        done = run_warren(*arguments, folder=self.folder, env=self.env)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def listed(self, *arguments: str) -> list[dict[str, object]]:
        """Return the JSON objects that a command prints, a line each."""
        return [json.loads(line) for line in self.warren(*arguments).stdout.splitlines()]

    def refused(self, *arguments: str, status: int = 1) -> str:
        """Return the one line that a command says before it fails."""
        done = self.warren(*arguments, status=status)
        [line] = done.stderr.splitlines()
        assert done.stdout == ""
        return line.removeprefix("error: ")

    def file(self, content: str) -> str:
        """Write a job file; return its name."""
        (self.folder / "jobs.yaml").write_text(content)
        return "jobs.yaml"
