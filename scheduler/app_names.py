"""App names by id and ids by name, read again when an unknown one turns up."""

from sql.engine import Database
from sql.registry import apps


class AppNames:
    """A cache; apps are never renamed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[int, str] = {}

    def __call__(self, *app_ids: int) -> dict[int, str]:
        """Return the names of all known apps, fresh when one of `app_ids` was not known."""
        if any(app_id not in self._names for app_id in app_ids):
            self._read()
        return self._names

    def id_of(self, name: str) -> int:
        """Return an app's id, 0, which no app has, when there is none of that name."""
        if name not in self._names.values():
            self._read()
        return next((app_id for app_id, known in self._names.items() if known == name), 0)

    def _read(self) -> None:
        found = self._database.read(apps.ids_by_name)
        self._names = {app_id: name for name, app_id in found.items()}
