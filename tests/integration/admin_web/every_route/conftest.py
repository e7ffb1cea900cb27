"""What holds for every route, tried with each role: on a console of each test's own."""

from tests.support.console_fixtures import _filled, admin, app, clock, database, rows, visit

__all__ = ["_filled", "admin", "app", "clock", "database", "rows", "visit"]
