"""Opens the database of another program: by its URL, without a password, encrypted."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import click

from warren.errors import CommandError
from warren.settings.secret_files import DATABASE, plaintext_problems
from warren.settings.setting_rules import has_password
from warren.settings.settings import Settings
from warren.sql.imports.foreign import ForeignDatabase


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
        replace(settings, database_url=place, broker_url=None), {DATABASE: "URL"}
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
