"""Records what goes to MariaDB: SQLAlchemy counts many rows in turn as one statement."""

from typing import Any

import pymysql
import pytest


def sent_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that each statement is added to from now on."""
    sent: list[str] = []
    send = pymysql.connections.Connection._execute_command

    def note(self: Any, command: int, words: Any) -> None:
        sent.append(words.decode() if isinstance(words, bytes) else words)
        send(self, command, words)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", note)
    return sent
