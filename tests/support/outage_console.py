"""A console of the installation on a bad afternoon, for a browser: no scheduler, no broker."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session
from werkzeug.serving import make_server

from tests.support.acting import NamedUsers
from tests.support.console import Clock, make_app
from tests.support.outage import Outage, fill
from warren.scheduler.board import next_hour
from warren.scheduler.board.folding import compare, rebuild
from warren.scheduler.board.keeper import look
from warren.sql.accounts.users import Role
from warren.sql.board import quarters
from warren.sql.clock import database_now_ms
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.sql.schema import migration
from warren.sql.unfolded import QUARTER_MS, quarter_of


class DatabaseClock(Clock):
    """The clock of a database."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    def now_ms(self) -> int:
        return self._database.read(database_now_ms)


@contextmanager
def outage_console(password: str, seed: int = 7, **parts: Any) -> Iterator[str]:
    """Give the address of the console; the user `admin` has the password.

    `parts` replace services of the console.
    """
    with tempfile.TemporaryDirectory(prefix="warren-outage-") as folder:
        database = Database(f"sqlite:///{Path(folder) / 'warren.db'}")
        migration.upgrade(database)
        fill_with_board(database, seed)
        users = NamedUsers(database, who="the tests")
        users.add("admin", password, role=Role.ADMINISTRATOR, app_names=())
        app = make_app(database, DatabaseClock(database), **parts)
        server = make_server("127.0.0.1", 0, app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            database.close()


def fill_with_board(database: Database, seed: int = 7) -> Outage:
    """Fill a migrated, empty database, with the board as schedulers would have kept it."""
    now_ms = database.read(database_now_ms)
    outage = fill(database, now_ms, seed)

    def unit(session: Session) -> None:
        rebuild(session, outage.jobs.values(), now_ms=now_ms)
        for at_ms in range(quarter_of(now_ms - DAY_MS), now_ms, QUARTER_MS):
            quarters.recount(session, at_ms)
        quarters.recount_skips(session, now_ms - DAY_MS, now_ms)
        look(session, None, now_ms=now_ms)
        compare(session, outage.jobs.values(), now_ms=now_ms)
        next_hour.make(session, timezone="UTC", now_ms=now_ms)

    database.write(unit)
    return outage
