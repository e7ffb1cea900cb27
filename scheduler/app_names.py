"""App names by id, read again when an unknown one turns up."""

from sql import apps
from sql.engine import Database


class AppNames:
    """A cache; apps are never renamed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._names: dict[int, str] = {}

    def __call__(self, *app_ids: int) -> dict[int, str]:
        """Return the names of all known apps, fresh when one of `app_ids` was not known."""
        if any(app_id not in self._names for app_id in app_ids):
            found = self._database.read(apps.ids_by_name)
            self._names = {app_id: name for name, app_id in found.items()}
        return self._names
