"""What importers share: they open another program's database, and print a job file."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from warren.errors import CommandError
from warren.jobfile.export import job_file
from warren.scheduler.jobs.spec import JobSpec
from warren.settings.secret_files import plaintext_problems
from warren.settings.setting_rules import has_password
from warren.settings.settings import Settings
from warren.sql.imports.foreign import ForeignDatabase
from warren.terminal.output import warn


@dataclass(slots=True)
class ForeignJobs:
    """The jobs of another scheduler, and remarks about what is different here."""

    specs: list[JobSpec] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def print(self, app: str) -> None:
        """Print a job file of stopped jobs that leaves their app as it is."""
        words = (
            f"# The jobs arrive stopped. App {app} stays as it is; if there is none yet: "
            f"warren apps add {app}"
        )
        print_job_file([words, *job_file([], self.specs)], self.remarks)


def print_job_file(lines: Iterable[str], remarks: Iterable[str]) -> None:
    """Print a job file, and remarks on standard error."""
    print("".join(f"{line}\n" for line in lines), end="")
    for words in remarks:
        warn(words)


def is_url(place: str) -> bool:
    """Whether a place is a database rather than a file."""
    return ":" in place and not Path(place).exists()


@contextmanager
def open_foreign(
    place: str, password_file: Path | None, settings: Settings
) -> Iterator[ForeignDatabase]:
    """Yield a database, which is only read.

    Raises:
        CommandError: the URL contains a password, or others could read the connection.

    """
    if has_password(place):
        raise CommandError(
            "expected a URL without a password, because the process list shows it; "
            "write it into a file and name that by --password-file"
        )
    for problem in plaintext_problems(
        replace(settings, database_url=place, broker_url=None, broker_management_url=None),
        lambda _: "URL",
    ):
        raise CommandError(problem)
    with closing(ForeignDatabase(place, _password(place, password_file))) as database:
        yield database


def _password(place: str, path: Path | None) -> str:
    if path is not None:
        return path.read_text(encoding="utf-8").strip()
    if sys.stdin.isatty():
        return str(click.prompt(f"Password for {place}", default="", hide_input=True, err=True))
    return ""
