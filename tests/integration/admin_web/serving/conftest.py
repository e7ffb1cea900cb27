"""The console of the unit tests, for a real server."""

from tests.unit.admin_web.conftest import _filled, app, clock, database

__all__ = ["_filled", "app", "clock", "database"]
