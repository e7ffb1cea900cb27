"""Connections to MariaDB or MySQL: how long each side waits, and what the server ends by itself."""

import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL

CONNECT_SECONDS = 5
ANSWER_SECONDS = 10

#: A frozen scheduler loses its locks after so long, sooner than others give up what waits for them.
SILENCE_SECONDS = 9
#: And a frozen console after so long: ticks are planned further ahead, so only what is due at once,
#: of a job that it was changing, is late.
WRITING_SILENCE_SECONDS = 3
# Nobody waits for a lock for longer than 4 s at a time. The SQL mode is set because a lax server
# cuts values that do not fit.
_SESSION_SETTINGS = (
    f"SET SESSION wait_timeout = {SILENCE_SECONDS}, innodb_lock_wait_timeout = 4, "
    "time_zone = '+00:00', "
    "sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'"
)
#: A connection that was not used for so long is made again: below both, so that the server never
#: closes one that is about to be used.
_IDLE_SECONDS, _WRITING_IDLE_SECONDS = 6, 2


def mysql_engine(
    url: URL,
    pool: Mapping[str, Any],
    *,
    answer_seconds: int,
    statement_seconds: int,
    impatient: bool,
) -> Engine:
    """Return what makes connections and keeps them in a pool; the rest is said of `Database`."""
    engine = create_engine(
        url,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        **pool,
        pool_pre_ping=not impatient,
        pool_recycle=_WRITING_IDLE_SECONDS if impatient else _IDLE_SECONDS,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": answer_seconds,
            "write_timeout": answer_seconds,
            "charset": "utf8mb4",
            "init_command": _SESSION_SETTINGS,
            **_tls(url),
        },
    )
    event.listen(engine, "checkin", _count_from_now)
    if impatient:
        _limit_silence(engine)
    if statement_seconds:
        _limit_statements(engine, statement_seconds)
    return engine


def _tls(url: URL) -> dict[str, Any]:
    """Return that nothing is encrypted on the way to this very machine, unless the URL asks for it.

    For each connection that may be encrypted, PyMySQL reads all certificates that the system
    trusts: 20 ms and more of computing.
    """
    asked = any(name.startswith("ssl") for name in url.query)
    return {} if asked or not _is_here(url.host or "localhost") else {"ssl_disabled": True}


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _count_from_now(_connection: object, record: Any) -> None:
    """Let the pool's limit on a connection's age be one on how long nobody has used it."""
    record.starttime = time.time()


def _limit_silence(engine: Engine) -> None:
    """Let the server end a connection soon that stands still in a write, and others later."""

    @event.listens_for(engine, "begin")
    def limit(connection: Connection) -> None:
        writing = connection.get_execution_options().get("warren_writing", False)
        seconds = WRITING_SILENCE_SECONDS if writing else SILENCE_SECONDS
        if connection.info.get("wait_timeout", SILENCE_SECONDS) != seconds:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {seconds}")
            connection.info["wait_timeout"] = seconds


def _limit_statements(engine: Engine, seconds: int) -> None:
    """Let the server end each SELECT after so long; both kinds say it in words of their own."""

    @event.listens_for(engine, "connect")
    def limit(connection: Any, _record: object) -> None:
        is_mariadb = "MariaDB" in connection.get_server_info()
        variable, value = (
            ("max_statement_time", seconds)
            if is_mariadb
            else ("max_execution_time", seconds * 1000)
        )
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {variable} = {int(value)}")
