"""Resolves names to ids for console, command line and API; commands take only ids."""

from warren.sql.accounts import tokens, users
from warren.sql.engine import Database
from warren.sql.errors import LookupFailure, NotFound
from warren.sql.jobs import job_names
from warren.sql.registry import apps, presence


class Resolver:
    """Finds ids by name; raises NotFound for an unknown name, Ambiguous if several rows have it."""

    def __init__(self, database: Database) -> None:
        self._read = database.read

    def job(self, name: str) -> int:
        """Return the id of a job, given as NAME, or as APP/NAME if two apps share the name."""
        return self._read(lambda session: job_names.find(session, name).id)

    def app(self, name: str) -> int:
        """Return the id of an app."""
        return self._read(lambda session: apps.find(session, name).id)

    def executor(self, name: str) -> int:
        """Return the id of an executor, given as ADDRESS, or APP/ADDRESS if two apps share it."""
        app, _, address = name.rpartition("/")
        return self._read(lambda session: presence.executor_id(session, address, app or None))

    def user(self, name: str) -> int:
        """Return the id of a user."""
        return self._read(lambda session: users.find(session, name).id)

    def token(self, name: str) -> int:
        """Return the id of a token."""
        token = self._read(lambda session: tokens.by_name(session, name))
        if token is None:
            raise NotFound(LookupFailure.NO_TOKEN_NAMED, name=name)
        return token.id
