"""Connections to a SQLite file; its writers wait for each other."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL


def sqlite_engine(url: URL, pool: Mapping[str, Any]) -> Engine:
    """Return what makes connections and keeps them; a write begins with its lock."""
    engine = create_engine(
        url,
        hide_parameters=True,
        **pool,
        connect_args={"timeout": 5.0, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # The driver's own idea of transactions starts them too late and without IMMEDIATE.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("warren_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
