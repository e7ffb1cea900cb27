"""A console for a real server."""

from tests.support.console_fixtures import _filled, app, clock, database, rows

__all__ = ["_filled", "app", "clock", "database", "rows"]
