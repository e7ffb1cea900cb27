"""Records which statements go to a server: SQLAlchemy counts a statement for many rows as one.

Pings of MariaDB are left out: a connection that was idle for a second is pinged, whatever follows.
"""

from contextlib import suppress
from typing import Any

import pymysql
import pytest
from pymysql.constants.COMMAND import COM_PING

with suppress(ModuleNotFoundError):  # the extra [postgresql]; without it, nothing here is used
    import psycopg


def sent_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that each statement is added to from now on."""
    sent: list[str] = []
    _note_of_mysql(monkeypatch, sent)
    if "psycopg" in globals():
        _note_of_postgresql(monkeypatch, sent)
    return sent


def _note_of_mysql(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> None:
    send = pymysql.connections.Connection._execute_command

    def note(self: Any, command: int, words: Any) -> None:
        if command != COM_PING:
            sent.append(_text(words))
        send(self, command, words)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", note)


def _note_of_postgresql(monkeypatch: pytest.MonkeyPatch, sent: list[str]) -> None:
    """Note statements, and what the driver says by itself: BEGIN, COMMIT, ROLLBACK."""
    execute, say = psycopg.Cursor.execute, psycopg.Connection._exec_command

    def note(self: Any, words: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(_text(words))
        return execute(self, words, *arguments, **options)

    def note_command(self: Any, words: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(_text(words))
        return say(self, words, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    monkeypatch.setattr(psycopg.Connection, "_exec_command", note_command)


def _text(words: Any) -> str:
    return words if isinstance(words, str) else str(words.decode(errors="replace"))
