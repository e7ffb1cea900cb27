"""Turns names into ids: console, command line and API ask here; commands take ids only."""

from sql.accounts import tokens, users
from sql.engine import Database
from sql.errors import NotFound
from sql.jobs import jobs
from sql.registry import apps, drains


class Resolver:
    """Finds ids by names; what has no such name raises NotFound, what several have Conflict."""

    def __init__(self, database: Database) -> None:
        self._read = database.read

    def job(self, name: str) -> int:
        """Return the id of a job: NAME, or APP/NAME where two apps share a name."""
        return self._read(lambda session: jobs.find(session, name).id)

    def app(self, name: str) -> int:
        """Return the id of an app."""
        return self._read(lambda session: apps.find(session, name).id)

    def executor(self, name: str) -> int:
        """Return the id of an executor: ADDRESS, or APP/ADDRESS where two apps have one."""
        app, _, address = name.rpartition("/")
        return self._read(lambda session: drains.find(session, address, app or None))

    def user(self, name: str) -> int:
        """Return the id of a user."""
        return self._read(lambda session: users.find(session, name).id)

    def token(self, name: str) -> int:
        """Return the id of a token."""
        found = self._read(lambda session: tokens.by_name(session, name))
        if found is None:
            raise NotFound(f"no token named {name!r}")
        return found.id
