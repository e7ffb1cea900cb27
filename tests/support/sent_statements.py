"""Records which statements go to MariaDB: SQLAlchemy counts a statement for many rows as one.

Pings are left out: a connection that was idle for a second is pinged, whatever follows.
"""

from typing import Any

import pymysql
import pytest
from pymysql.constants.COMMAND import COM_PING


def sent_statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list that each statement is added to from now on."""
    sent: list[str] = []
    send = pymysql.connections.Connection._execute_command

    def note(self: Any, command: int, words: Any) -> None:
        if command != COM_PING:
            sent.append(words.decode() if isinstance(words, bytes) else words)
        send(self, command, words)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", note)
    return sent
