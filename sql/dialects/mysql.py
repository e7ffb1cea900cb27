"""MariaDB and MySQL: their timeouts, error codes and SQL."""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import WeakSet

import pymysql
import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    Table,
    cast,
    create_engine,
    event,
    func,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.orm import QueryableAttribute
from sqlalchemy.sql import SQLColumnExpression
from sqlalchemy.types import TypeEngine

from warren.sql.dialects import url_forms
from warren.sql.dialects.dialect import (
    Columns,
    Connecting,
    Locking,
    ServerChoice,
    ServerFacts,
    UpdateRule,
    check_tls_files,
    too_old,
)
from warren.sql.dialects.lean_connection import LeanConnection, LeanDialect, lean

CONNECT_SECONDS = 5

#: The server closes a connection that is idle for this long, so a frozen scheduler loses its locks
#: before others stop waiting for them.
IDLE_LIMIT_SECONDS = 9
#: The same for a frozen console. Ticks are planned further ahead than this, so the only late runs
#: are those due at once of a job that it was changing.
WRITING_IDLE_LIMIT_SECONDS = 3
# No statement waits for a lock longer than 4 s. The SQL mode is set because a server without
# strict mode truncates values that do not fit.
_SESSION_SETTINGS = (
    f"SET SESSION wait_timeout = {IDLE_LIMIT_SECONDS}, innodb_lock_wait_timeout = 4, "
    "time_zone = '+00:00', "
    "sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'"
)
#: A connection that was idle for this long is pinged before use.
PING_AFTER_SECONDS = 1.0
#: A connection that was idle for this long is replaced: less than the limits above, so that the
#: server never closes a connection that is about to be used.
_RECYCLE_SECONDS, _WRITING_RECYCLE_SECONDS = 6, 2

#: The first versions with SKIP LOCKED.
OLDEST_MARIADB, OLDEST_MYSQL = (10, 6), (8, 0)

#: Errors after which the same unit of work may succeed: lock wait (1205), deadlock (1213), changed
#: since read (1020), NOWAIT (3572), connection killed (1927) or lost (2006, 2013, 2055, 4031).
RETRYABLE_CODES = frozenset({1205, 1213, 1020, 3572, 1927, 2006, 2013, 2055, 4031})
#: Errors of a server that takes no writes: read-only (1290, 1792, 1836), refused by its replication
#: plugin (3100, 3101), node of a Galera cluster not ready (1047). Behind the same name there may be
#: another one by now, so all connections to it are given up.
READ_ONLY_CODES = frozenset({1047, 1290, 1792, 1836, 3100, 3101})
#: Errors of the values or of the statement, which any server would refuse again: no value (1048,
#: 1263, 1364), duplicate (1062, 1169, 1586), reference (1216, 1217, 1451, 1452), value that does
#: not fit (1264, 1265, 1292, 1300, 1365, 1366, 1367, 1406, 1411, 1441, 1690, 1977, 3854), too large
#: (1153, 1301), not JSON (3140, 3141), check (3819, 4025) or trigger (1644); syntax (1064, 1149),
#: ambiguous or wrong column (1052, 1110, 1111, 1136), arguments (1210, 1230, 1235, 1318), wrong
#: number of rows or columns (1241, 1242), collations (1267, 1271). Any other one is the server's.
FAULT_CODES = frozenset(
    {1048, 1263, 1364, 1062, 1169, 1586, 1216, 1217, 1451, 1452}
    | {1264, 1265, 1292, 1300, 1365, 1366, 1367, 1406, 1411, 1441, 1690, 1977, 3854}
    | {1153, 1301, 3140, 3141, 3819, 4025, 1644, 1064, 1149, 1052, 1110, 1111, 1136}
    | {1210, 1230, 1235, 1318, 1241, 1242, 1267, 1271}
)
#: Errors of a server that cannot be reached: no connection (2002, 2003), too many (1040), shutting
#: down (1053), lost (2006, 2013, 2055, 4031).
LOSS_CODES = frozenset({2002, 2003, 1040, 1053, 2006, 2013, 2055, 4031})
#: Errors about a table (1146) or a column (1054) that is missing.
SCHEMA_CODES = frozenset({1054, 1146})

#: Added to any id, it is out of range; and the errors for that (1690) and for a duplicate (1062).
_LARGEST_ID = 2**63 - 1
_OUT_OF_RANGE, _DUPLICATE = 1690, 1062

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_HOST = re.compile(r"[A-Za-z0-9_.:%/-]{1,255}")

#: The id of a server, which replication requires to be different on each, and whether it is
#: read-only: so a primary that becomes read-only is looked at again.
_SERVER_NUMBER = "CONCAT(@@server_id, '/', @@global.read_only)"
_OFF = (None, 0, "0", "OFF", "")
_GALERA, _GROUP = "wsrep_cluster_state_uuid", "group_replication_group_name"
#: Whether both threads of a replica work; MariaDB only. A replica that has lost its primary is OFF.
_REPLICATES = "Slave_running"

#: All engines of this process.
_ENGINES: WeakSet[Engine] = WeakSet()


class MySQL:
    """See `Dialect`; serves MariaDB and MySQL, which differ in their versions and one setting."""

    name = "mysql"
    url_form = url_forms.MYSQL
    is_embedded = url_form.is_embedded
    jumps_to_groups = True
    as_filter = "{}"
    now_ms = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)"
    random_id = "UUID()"
    server_number = _SERVER_NUMBER
    indexes = (
        "SELECT table_name, index_name, non_unique = 0, "
        "GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics "
        "WHERE table_schema = DATABASE() AND index_name <> 'PRIMARY' "
        "GROUP BY table_name, index_name, non_unique"
    )
    long_text: TypeEngine[str] | None = mysql.MEDIUMTEXT()
    auto_id: TypeEngine[int] | None = None
    nul = "\0"
    table_options: Mapping[str, str] = {
        "mysql_engine": "InnoDB",
        "mysql_charset": "utf8mb4",
        "mysql_collate": "utf8mb4_bin",
    }
    lasting_id_options: Mapping[str, bool] = {}
    after_upgrade: Sequence[str] = ()

    def make_engine(self, urls: Sequence[URL], how: Connecting) -> Engine:
        """Return an engine whose connections the server closes when they are idle for long."""
        arguments = [_arguments(url, how) for url in urls]
        engine = create_engine(
            lean(urls[0]),
            hide_parameters=True,
            isolation_level="AUTOCOMMIT" if how.is_autocommit else "READ COMMITTED",
            **how.pool,
            pool_recycle=_WRITING_RECYCLE_SECONDS if how.fail_fast else _RECYCLE_SECONDS,
            connect_args=arguments[0],
        )
        event.listen(engine, "checkin", _restart_age)
        _ENGINES.add(engine)
        event.listen(engine, "handle_error", _leave_if_read_only)
        if how.servers is not None:
            _choose_server(engine, how.servers, urls, arguments)
        if not how.fail_fast:
            event.listen(engine, "checkout", _ping_if_idle)
        if how.fail_fast and not how.is_autocommit:
            _limit_idle_time(engine)
        if how.statement_seconds:
            _limit_statements(engine, how.statement_seconds)
        return engine

    def server_facts(self, connection: Any) -> ServerFacts:
        """Ask for its variables and status, which every account may read."""
        return _facts(connection)

    def version_problem(self, connected: sqlalchemy.Dialect) -> str | None:
        """Compare the server's version with the oldest of its kind."""
        parts = connected.server_version_info or ()
        version = tuple(part for part in parts if isinstance(part, int))
        if getattr(connected, "is_mariadb", False):
            return too_old("MariaDB", version, OLDEST_MARIADB)
        return too_old("MySQL", version, OLDEST_MYSQL)

    def is_retryable(self, error: DBAPIError) -> bool:
        """Check the error code, and whether the connection was lost."""
        return error.connection_invalidated or _code(error) in RETRYABLE_CODES

    def is_loss(self, error: DBAPIError) -> bool:
        """Check the error code of the server or driver."""
        return _code(error) in LOSS_CODES

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Return False for what is wrong with values or statement; the rest is the server's.

        Without a statement, it is an error of connecting or committing.
        """
        is_driver = isinstance(error.orig, pymysql.err.ProgrammingError) and not _code(error)
        is_fault = is_driver or _code(error) in FAULT_CODES
        return error.statement is None or self.is_retryable(error) or not is_fault

    def is_schema_fault(self, error: DBAPIError) -> bool:
        """Check the error code."""
        return _code(error) in SCHEMA_CODES

    def is_id_taken(self, error: DBAPIError) -> bool:
        """Recognize the error of `insert_rows`, and that of any other INSERT by its key's name."""
        code = _code(error)
        return code == _OUT_OF_RANGE or (code == _DUPLICATE and "PRIMARY'" in str(error.orig))

    def index_hint(self, index: str) -> str | None:
        """Return FORCE INDEX, which both servers obey."""
        return f"FORCE INDEX ({index or 'PRIMARY'})"

    def lower(self, text: ColumnElement[str]) -> ColumnElement[str]:
        """Return LOWER, which knows the character set's scripts whatever the collation."""
        return func.lower(text)

    def replace_all(
        self, text: ColumnElement[str], pattern: str, by: str
    ) -> ColumnElement[str | None]:
        """Return REGEXP_REPLACE, which replaces all matches."""
        return func.regexp_replace(text, pattern, by)

    def byte_length(self, text: QueryableAttribute[Any]) -> ColumnElement[int]:
        """Return LENGTH, which counts bytes."""
        return func.coalesce(func.length(text), 0)

    def sum_of(self, number: SQLColumnExpression[int]) -> ColumnElement[int]:
        """Return SUM as an integer; by itself it is a decimal."""
        return cast(func.coalesce(func.sum(number), 0), BigInteger)

    def insert_or_ignore(self, model: type[Any], key: QueryableAttribute[Any]) -> Insert:
        """Set the key to itself, because INSERT IGNORE would truncate values that do not fit."""
        return mysql.insert(model).on_duplicate_key_update({str(key.expression.key): key})

    def insert_or_add(self, model: type[Any], column: QueryableAttribute[Any]) -> Insert:
        """Return ON DUPLICATE KEY UPDATE, which applies to any unique key."""
        insert, name = mysql.insert(model), str(column.expression.key)
        return insert.on_duplicate_key_update({name: column + insert.inserted[name]})

    def places(self, _first: int, count: int) -> list[str]:
        """Return those of the driver, which puts the values in their place itself."""
        return ["%s"] * count

    def bind_rows(self, rows: Iterable[Collection[Any]]) -> tuple[Any, ...]:
        """Return all values in a row."""
        return tuple(chain.from_iterable(rows))

    def insert_rows(
        self, columns: Columns, count: int, key: Column[Any], same: Columns = ()
    ) -> str:
        """Set the key to itself, because INSERT IGNORE would truncate values that do not fit.

        The count of rows does not tell which were kept. So if an existing row is not the same, its
        key becomes too large for the column's type, which is an error in any SQL mode.
        """
        table, name = key.table.name, key.name
        otherwise = f"{name} = {table}.{name}"
        if same:
            alike = (f"{table}.{each.name} = VALUES({each.name})" for each in same)
            otherwise += f" + IF({' AND '.join(alike)}, 0, {_LARGEST_ID})"
        return _insert_rows(columns, count, table, otherwise)

    def replace_rows(self, columns: Columns, count: int, key: Column[Any]) -> str:
        """Return ON DUPLICATE KEY UPDATE, which applies to any unique key."""
        names = (column.name for column in columns if column is not key)
        sets = ", ".join(f"{name} = VALUES({name})" for name in names)
        return _insert_rows(columns, count, key.table.name, sets)

    def update_rows(self, columns: Columns, count: int, key: Column[Any], rule: UpdateRule) -> str:
        """Join from the values to the rows; the other way round would lock other rows too."""
        table, names = key.table.name, [column.name for column in columns]
        first = "SELECT " + ", ".join(f"%s AS {name}" for name in names)
        further = f" UNION ALL SELECT {', '.join(['%s'] * len(names))}"
        values = f"({first}{further * (count - 1)}) v"
        by_key = f"FORCE INDEX (PRIMARY) ON {table}.{key.name} = v.{key.name}"
        set_names = (name for name in names if name not in (key.name, *rule.matched))
        sets = {name: f"v.{name}" for name in set_names} | rule.sets
        changes = ", ".join(f"{table}.{name} = {value}" for name, value in sets.items())
        matches = "".join(f"{table}.{name} = v.{name} AND " for name in rule.matched)
        return f"UPDATE {values} STRAIGHT_JOIN {table} {by_key} SET {changes} WHERE {matches}"  # noqa: S608 - constants of ours

    def update_alike(self, columns: Columns, ids: Sequence[int], key: Column[Any]) -> str:
        """Force the primary key, because MariaDB may prefer the index on the common status."""
        sets = ", ".join(f"{column.name} = %s" for column in columns)
        listed = ",".join(map(str, ids))
        table = f"{key.table.name} FORCE INDEX (PRIMARY)"
        return f"UPDATE {table} SET {sets} WHERE {key.name} IN ({listed}) AND "  # noqa: S608 - constants and numbers of ours

    def lock_rows(
        self, columns: Columns, ids: Sequence[int], key: Column[Any], how: Locking
    ) -> str:
        """Force the primary key; with `skips`, add SKIP LOCKED."""
        names, listed = ", ".join(column.name for column in columns), ",".join(map(str, ids))
        table = f"{key.table.name} FORCE INDEX (PRIMARY)"
        from_ = f"{table} WHERE {key.name} IN ({listed}) AND {how.guard}"
        wait = " SKIP LOCKED" if how.skips else ""
        return f"SELECT {names} FROM {from_} ORDER BY {how.order} FOR UPDATE{wait}"  # noqa: S608 - constants and numbers of ours

    def skip_given_ids(self, _connection: Connection, _table: Table) -> None:
        """Do nothing: inserting a row with a high id raises AUTO_INCREMENT above it."""

    def lock_upgrade(self, connection: Connection, seconds: int) -> bool:
        """Take a lock of the connection, because DDL commits and would release a transaction's."""
        # The lock's name is valid for the whole server and may have 64 characters.
        name = f"warren.{connection.engine.url.database}"[:64]
        statement = "SELECT GET_LOCK(%s, %s)"
        return bool(connection.exec_driver_sql(statement, (name, seconds)).scalar())

    def grants(self, rights: Mapping[str, str], database: str, user: str, host: str) -> list[str]:
        """Return one GRANT for each table."""
        for what, pattern, name in (
            ("database", _NAME, database),
            ("user", _NAME, user),
            ("host", _HOST, host),
        ):
            if not pattern.fullmatch(name):
                raise ValueError(
                    f"expected {what} to be a name like {pattern.pattern}, got: {name!r}"
                )
        return [
            f"GRANT {right} ON `{database}`.`{table}` TO '{user}'@'{host}';"
            for table, right in rights.items()
        ]


def _insert_rows(columns: Columns, count: int, table: str, otherwise: str) -> str:
    names = ", ".join(column.name for column in columns)
    rows = ", ".join([f"({', '.join(['%s'] * len(columns))})"] * count)
    return f"INSERT INTO {table} ({names}) VALUES {rows} ON DUPLICATE KEY UPDATE {otherwise}"  # noqa: S608 - constants of ours


def _arguments(url: URL, how: Connecting) -> dict[str, Any]:
    """Return the driver's arguments besides those of the URL."""
    return {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": how.answer_seconds,
        "write_timeout": how.answer_seconds,
        "charset": "utf8mb4",
        "init_command": _SESSION_SETTINGS,
        **_tls(url),
    }


def _choose_server(
    engine: Engine,
    servers: ServerChoice,
    urls: Sequence[URL],
    arguments: Sequence[dict[str, Any]],
) -> None:
    """Let `servers` choose where each connection goes, and tell it of lost ones."""
    dialect = engine.dialect
    assert isinstance(dialect, LeanDialect)

    def open_one(place: int) -> LeanConnection:
        _, options = dialect.create_connect_args(lean(urls[place]))
        return LeanConnection(**{**options, **arguments[place]})

    dialect.connect_by = lambda *_, **__: servers.connect(open_one)

    @event.listens_for(engine, "handle_error")
    def doubt(context: ExceptionContext) -> None:
        if context.is_disconnect:
            servers.doubt()


def _tls(url: URL) -> dict[str, Any]:
    """Return the options of TLS; with an authority, certificate and name are verified.

    On this host TLS is off unless the URL asks for it: for each connection that may use TLS,
    PyMySQL reads all certificates that the system trusts, which takes 20 ms and more.
    """
    options: dict[str, Any] = {
        name.removeprefix("ssl_"): value
        for name, value in url.query.items()
        if name.startswith("ssl_")
    }
    check_tls_files(url, ("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key"))
    if not options:
        return {"ssl_disabled": True} if url_forms.is_local(url.host or "localhost") else {}
    if "ca" in options or "capath" in options:
        options |= {"check_hostname": True, "verify_mode": True}
    if "cipher" in options:
        # With an anonymous cipher there is no certificate to verify.
        options["cipher"] += ":!aNULL:!eNULL"
    return {"ssl": options}


def _ping_if_idle(connection: Any, record: Any, _proxy: object) -> None:
    """Ping a connection before use if it has been idle.

    If a connection was lost more recently, its next statement fails and the unit of work is
    repeated.
    """
    if time.time() - record.starttime < PING_AFTER_SECONDS:
        return
    try:
        connection.ping(reconnect=False)
    except Exception as error:
        raise InvalidatePoolError(str(error)) from error


def _restart_age(_connection: object, record: Any) -> None:
    """Make the pool's limit on a connection's age a limit on its idle time."""
    record.starttime = time.time()


def _leave_if_read_only(context: ExceptionContext) -> None:
    """Give up all connections of this process to a server that takes no writes.

    Those that are busy are closed when they are returned. The unit of work is tried again.
    """
    arguments = getattr(context.original_exception, "args", ())
    if context.engine is None or not arguments or arguments[0] not in READ_ONLY_CODES:
        return
    context.is_disconnect = True
    for engine in list(_ENGINES):
        if engine.url == context.engine.url:
            engine.dispose()


def _limit_idle_time(engine: Engine) -> None:
    """Make the server close idle connections, sooner if they are in a writing transaction."""

    @event.listens_for(engine, "begin")
    def limit(connection: Connection) -> None:
        writing = connection.get_execution_options().get("warren_writing", False)
        seconds = WRITING_IDLE_LIMIT_SECONDS if writing else IDLE_LIMIT_SECONDS
        if connection.info.get("wait_timeout", IDLE_LIMIT_SECONDS) != seconds:
            connection.exec_driver_sql(f"SET SESSION wait_timeout = {seconds}")
            connection.info["wait_timeout"] = seconds


def _limit_statements(engine: Engine, seconds: int) -> None:
    """Make the server end each SELECT after this time; MariaDB and MySQL differ in the variable."""

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


def _code(error: DBAPIError) -> int:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def _facts(connection: Any) -> ServerFacts:
    """Return what the server says of itself, asked on a connection of the driver.

    None of it needs a right. The nodes of a Galera cluster, or of a MySQL group, commit together,
    so they count as one server.
    """
    [(server_id, is_read_only, number)] = _rows(
        connection, f"SELECT @@server_id, @@global.read_only, {_SERVER_NUMBER}"
    )
    names = f"'{_GALERA}', '{_REPLICATES}'"
    status = dict(_rows(connection, f"SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"))
    variables = dict(_rows(connection, f"SHOW GLOBAL VARIABLES LIKE '{_GROUP}'"))
    cluster, group = str(status.get(_GALERA) or ""), variables.get(_GROUP)
    if cluster.strip("0-"):
        identity = f"cluster {cluster}"
    else:
        identity = f"group {group}" if group else f"server {server_id}"
    return ServerFacts(
        number=str(number),
        identity=identity,
        is_read_only=is_read_only not in _OFF,
        is_replica=status.get(_REPLICATES) not in _OFF,
    )


def _rows(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
