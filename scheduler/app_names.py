"""Caches app names by id and ids by name."""

from collections.abc import Mapping

from warren.sql.engine import Database
from warren.sql.registry import apps


class AppNames:
    """The names of all apps, read again when an unknown one is asked for; apps keep their names."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[int, str] = {}

    def known(self) -> Mapping[int, str]:
        """Return the names of all known apps by their ids."""
        return self._names

    def name_of(self, app_id: int) -> str | None:
        """Return an app's name; None if there is no such app."""
        if app_id not in self._names:
            self._read()
        return self._names.get(app_id)

    def id_of(self, name: str) -> int:
        """Return an app's id; 0, which no app has, for an unknown name."""
        if name not in self._names.values():
            self._read()
        return next((app_id for app_id, known in self._names.items() if known == name), 0)

    def refresh(self) -> bool:
        """Read all names again; return whether any has changed.

        The name of a deleted app may have been given to a new one, with another id.
        """
        before = self._names
        self._read()
        return self._names != before

    def _read(self) -> None:
        ids = self._database.read(apps.ids_by_name)
        self._names = {app_id: name for name, app_id in ids.items()}
