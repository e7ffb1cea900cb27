"""The pages' tests: each on a console of its own."""

from tests.support.console_fixtures import _filled, admin, app, clock, database, rows, visit

__all__ = ["_filled", "admin", "app", "clock", "database", "rows", "visit"]
