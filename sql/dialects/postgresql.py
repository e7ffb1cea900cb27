"""PostgreSQL: its timeouts, error codes and SQL."""

import json
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any
from weakref import WeakSet

import psycopg
import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    String,
    Table,
    cast,
    collate,
    create_engine,
    event,
    func,
)
from sqlalchemy.dialects import postgresql
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
    OnConflict,
    ServerFacts,
    check_tls_files,
    too_old,
)
from warren.sql.dialects.postgresql_driver import (
    ALL_SCRIPTS,
    NUL,
    TimedConnection,
    TimedDialect,
    timed,
)

CONNECT_SECONDS = 5
#: After how many times a statement outside of transactions is prepared.
PREPARED_AFTER = 5

#: The server ends a session that is idle for this long in a transaction, so a frozen scheduler
#: loses its locks before others stop waiting for them.
IDLE_LIMIT_SECONDS = 9
#: The same for a writing transaction of a console. Ticks are planned further ahead than this, so
#: the only late runs are those due at once of a job that it was changing.
WRITING_IDLE_LIMIT_SECONDS = 3
#: No statement waits for a lock longer than 4 s, and none goes on for long once its caller has
#: given up. A plan for any value would read what is common, where we ask for what is rare. What is
#: read by keys is mostly in memory, so that a whole table is not the cheaper way to some rows.
#: Such reads take less time than parallel workers take to start.
_SESSION_SETTINGS = {
    "lock_timeout": "4s",
    "idle_in_transaction_session_timeout": f"{IDLE_LIMIT_SECONDS}s",
    "client_connection_check_interval": "2s",
    "plan_cache_mode": "force_custom_plan",
    "random_page_cost": "1.1",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
}

OLDEST = (15,)

#: Errors after which the same unit of work may succeed: serialization (40001), deadlock (40P01),
#: lock timeout (55P03), session ended (25P03, 57P01, 57P02).
RETRYABLE_STATES = frozenset({"40001", "40P01", "55P03", "25P03", "57P01", "57P02", "57P05"})
#: The error of a server that takes no writes: of a read-only transaction. Behind the same name
#: there may be another one by now, so all connections to it are given up.
READ_ONLY_STATE = "25006"
#: Errors of the values or of the statement, which any server would refuse again: classes of
#: cardinality (21), data (22), constraints (23) and limits of programs (54); a trigger's (P0001),
#: syntax (42601), names and types (42702, 42703, 42725, 42803, 42804, 42883, 42P10), parameters
#: (42P02, 42P18), unsupported (0A000), in a failed transaction (25P02).
FAULT_CLASSES = frozenset({"21", "22", "23", "54"})
FAULT_STATES = frozenset(
    {"P0001", "42601", "42702", "42725", "42803", "42804", "42883", "42P10"}
    | {"42P02", "42P18", "0A000", "25P02"}
)
#: Errors of a server that cannot be reached: class of connections (08), too many (53300), shutting
#: down or starting (57P01, 57P02, 57P03).
LOSS_CLASS = "08"
LOSS_STATES = frozenset({"53300", "57P01", "57P02", "57P03"})
#: Errors about a table (42P01) or a column (42703) that is missing.
SCHEMA_STATES = frozenset({"42P01", "42703"})
_DUPLICATE = "23505"

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,63}")
#: The key of the lock of upgrades, among the keys of this database.
_UPGRADE_KEY = 0x77617272656E
_UPGRADE_POLL_SECONDS = 0.2

#: Which server: of a cluster of files and their copies, the line of history that it writes. A
#: standby that is promoted begins a new one.
_IDENTITY = (
    "(SELECT system_identifier FROM pg_control_system()) || '/' || CASE WHEN pg_is_in_recovery() "
    "THEN 'standby' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
)
_IS_READ_ONLY = "current_setting('default_transaction_read_only') = 'on'"

_KEEPING = {
    "fillfactor": 80,
    "autovacuum_vacuum_scale_factor": 0.02,
    "autovacuum_vacuum_threshold": 1_000,
    "autovacuum_vacuum_insert_scale_factor": 0.05,
    "autovacuum_vacuum_cost_limit": 2_000,
    "autovacuum_analyze_scale_factor": 0.02,
    "autovacuum_analyze_threshold": 1_000,
}
_KEPT = [f"{name}={value}" for name, value in _KEEPING.items()]
#: A run's row is updated four times within seconds, and stays for weeks. So its page keeps room for
#: the next version, and old ones are removed while they are few in a large table. Only the table's
#: owner may say so; where it is so already, others may upgrade what is up to date.
_AFTER_UPGRADE = (
    f"""DO $$ BEGIN
    IF NOT (SELECT coalesce(reloptions, '{{}}') @> '{{{",".join(_KEPT)}}}'
            FROM pg_class WHERE oid = to_regclass('xxl_job_log')) THEN
        ALTER TABLE xxl_job_log SET ({", ".join(_KEPT)});
    END IF;
END $$""",  # noqa: S608 - constants of ours
)

#: All engines of this process.
_ENGINES: WeakSet[Engine] = WeakSet()


class PostgreSQL(OnConflict):
    """See `Dialect`.

    It is loaded only where it is used, so it has nothing that models or statements of all databases
    would need: no types, table options or hints of its own.
    """

    name = "postgresql"
    url_form = url_forms.POSTGRESQL
    is_embedded = url_form.is_embedded
    jumps_to_groups = False
    # No index serves this. A state that was rare at the last ANALYZE may be that of most rows now,
    # and its part of the index is full of entries of rows that have left it.
    as_filter = "({}) IS TRUE"
    _insert = staticmethod(postgresql.insert)
    now_ms = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)"
    random_id = "CAST(gen_random_uuid() AS VARCHAR)"
    server_number = (
        f"{_IDENTITY} || '/' || CAST(EXTRACT(EPOCH FROM pg_postmaster_start_time()) AS VARCHAR) "
        f"|| CASE WHEN {_IS_READ_ONLY} THEN '/read-only' ELSE '' END"
    )
    indexes = (
        "SELECT t.relname, c.relname, i.indisunique, "
        "(SELECT string_agg(a.attname, ',' ORDER BY k.place) "
        "FROM unnest(CAST(i.indkey AS int2[])) WITH ORDINALITY AS k(number, place) "
        "JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number) "
        "FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
        "JOIN pg_class AS t ON t.oid = i.indrelid "
        "JOIN pg_namespace AS n ON n.oid = t.relnamespace "
        "WHERE n.nspname = current_schema() AND NOT i.indisprimary AND i.indisvalid "
        "AND i.indpred IS NULL"
    )
    long_text: TypeEngine[str] | None = None
    auto_id: TypeEngine[int] | None = None
    nul = NUL
    table_options: Mapping[str, str] = {}
    lasting_id_options: Mapping[str, bool] = {}
    after_upgrade: Sequence[str] = _AFTER_UPGRADE

    def make_engine(self, urls: Sequence[URL], how: Connecting) -> Engine:
        """Return an engine whose transactions the server ends when they are idle for long."""
        engine = create_engine(
            timed(urls[0]),
            hide_parameters=True,
            isolation_level="AUTOCOMMIT" if how.is_autocommit else "READ COMMITTED",
            use_native_hstore=False,
            **how.pool,
        )
        _ENGINES.add(engine)
        event.listen(engine, "handle_error", _leave_if_read_only)
        event.listen(engine, "checkout", _check)
        _choose_server(engine, urls, how)
        if how.fail_fast and not how.is_autocommit:
            event.listen(engine, "begin", _limit_idle_time)
        return engine

    def server_facts(self, connection: Any) -> ServerFacts:
        """Ask functions that every account may call."""
        asked = f"{self.server_number}, {_IDENTITY}, pg_is_in_recovery(), {_IS_READ_ONLY}"
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {asked}")
            [(number, identity, is_standby, is_read_only)] = cursor.fetchall()
        return ServerFacts(
            number=str(number),
            identity=f"server {identity}",
            is_read_only=is_standby or is_read_only,
            is_replica=is_standby,
        )

    def version_problem(self, connected: sqlalchemy.Dialect) -> str | None:
        """Check the server's version, the database's encoding, and the collations there are."""
        version = tuple(map(int, connected.server_version_info or ()))
        if problem := too_old("PostgreSQL", version, OLDEST):
            return problem
        encoding = getattr(connected, "server_encoding", "")
        if encoding != "UTF8":
            return (
                f"expected the encoding of the database to be UTF8, got: {encoding}; "
                "create it with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
        if not getattr(connected, "has_all_scripts", True):
            wanted = f"expected PostgreSQL to have the collation {ALL_SCRIPTS}"
            return f"{wanted}, but it was built without ICU"
        return None

    def is_retryable(self, error: DBAPIError) -> bool:
        """Check the error's state, and whether the connection was lost."""
        return error.connection_invalidated or _state(error) in RETRYABLE_STATES

    def is_loss(self, error: DBAPIError) -> bool:
        """Check the error's state; errors of connecting have none."""
        state = _state(error)
        is_of_driver = not state and isinstance(error.orig, psycopg.OperationalError)
        return is_of_driver or state[:2] == LOSS_CLASS or state in LOSS_STATES

    def is_unavailable(self, error: DBAPIError) -> bool:
        """Return False for what is wrong with values or statement; the rest is the server's.

        Without a statement, it is an error of connecting or committing.
        """
        state = _state(error)
        is_of_driver = not state and not isinstance(error.orig, psycopg.OperationalError)
        is_fault = is_of_driver or state[:2] in FAULT_CLASSES or state in FAULT_STATES
        return error.statement is None or self.is_retryable(error) or not is_fault

    def is_schema_fault(self, error: DBAPIError) -> bool:
        """Check the error's state."""
        return _state(error) in SCHEMA_STATES

    def is_id_taken(self, error: DBAPIError) -> bool:
        """Recognize the key by its name, which PostgreSQL gives."""
        key = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
        return _state(error) == _DUPLICATE and key.endswith("_pkey")

    def index_hint(self, _index: str) -> str | None:
        """Return None; PostgreSQL takes no hints."""
        return None

    def lower(self, text: ColumnElement[str]) -> ColumnElement[str]:
        """Return LOWER by a collation that knows all scripts; the columns' knows ASCII only."""
        return func.lower(collate(text, ALL_SCRIPTS))

    def replace_all(
        self, text: ColumnElement[str], pattern: str, by: str
    ) -> ColumnElement[str | None]:
        """Return REGEXP_REPLACE with the flag to replace all matches."""
        return func.regexp_replace(text, pattern, by, "g")

    def byte_length(self, text: QueryableAttribute[Any]) -> ColumnElement[int]:
        """Return OCTET_LENGTH; the database's encoding is UTF-8."""
        return func.coalesce(func.octet_length(text), 0)

    def sum_of(self, number: SQLColumnExpression[int]) -> ColumnElement[int]:
        """Return SUM as an integer; that of large ones is a decimal."""
        return cast(func.coalesce(func.sum(number), 0), BigInteger)

    def places(self, first: int, count: int) -> list[str]:
        """Return numbered ones."""
        return [f"${number}" for number in range(first, first + count)]

    def bind_rows(self, rows: Iterable[Collection[Any]]) -> tuple[str]:
        """Return all rows as JSON: thousands of values take the server twice as long to plan."""
        named = [{f"column{place}": value for place, value in enumerate(row, 1)} for row in rows]
        return (json.dumps(named, ensure_ascii=False, allow_nan=False, default=_date_as_text),)

    def _table(self, columns: Columns, _count: int) -> str:
        typed = (f"column{place} {_sql_type(each.type)}" for place, each in enumerate(columns, 1))
        return f"json_to_recordset($1::json) AS v({', '.join(typed)})"

    def lock_rows(
        self, columns: Columns, ids: Sequence[int], key: Column[Any], how: Locking
    ) -> str:
        """Return FOR UPDATE, which locks in the order of the rows; with `skips`, SKIP LOCKED."""
        names, listed = ", ".join(column.name for column in columns), ",".join(map(str, ids))
        guard = self.as_filter.format(how.guard)
        from_ = f"{key.table.name} WHERE {key.name} IN ({listed}) AND {guard}"
        wait = " SKIP LOCKED" if how.skips else ""
        return f"SELECT {names} FROM {from_} ORDER BY {how.order} FOR UPDATE{wait}"  # noqa: S608 - constants and numbers of ours

    def skip_given_ids(self, connection: Connection, table: Table) -> None:
        """Move the sequence of the ids, which explicit ones leave alone."""
        [key] = table.primary_key.columns
        sequence = f"pg_get_serial_sequence('{table.name}', '{key.name}')"
        connection.exec_driver_sql(
            f"SELECT setval({sequence}, highest) "  # noqa: S608 - constants of ours
            f"FROM (SELECT max({key.name}) AS highest FROM {table.name}) AS given "
            f"WHERE highest > coalesce(pg_sequence_last_value({sequence}), 0)"
        )

    def lock_upgrade(self, connection: Connection, seconds: int) -> bool:
        """Take a lock of the transaction; ask for it again and again, so that none waits idle."""
        until = time.monotonic() + seconds
        while True:
            asked = connection.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_UPGRADE_KEY})")
            is_taken = bool(asked.scalar())
            if is_taken or time.monotonic() >= until:
                return is_taken
            time.sleep(_UPGRADE_POLL_SECONDS)

    def grants(self, rights: Mapping[str, str], database: str, user: str, _host: str) -> list[str]:
        """Return the GRANTs of database and schema, one for each table, and that of their ids.

        Where an account connects from is a matter of pg_hba.conf.
        """
        for what, name in (("database", database), ("user", user)):
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"expected {what} to be a name like {_NAME.pattern}, got: {name!r}"
                )
        return [
            f'GRANT CONNECT ON DATABASE "{database}" TO "{user}";',
            f'GRANT USAGE ON SCHEMA public TO "{user}";',
            *(f'GRANT {right} ON "{table}" TO "{user}";' for table, right in rights.items()),
            f'GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO "{user}";',
        ]


def _date_as_text(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"expected a value that JSON has, got: {type(value).__name__}")


@cache
def _sql_type(kind: TypeEngine[Any]) -> str:
    """Return the type of a value for a column, which cuts or refuses nothing by itself."""
    if isinstance(kind, String):
        return "TEXT"
    if isinstance(kind, Integer):
        return "BIGINT"
    return kind.compile(TimedDialect())


def _choose_server(engine: Engine, urls: Sequence[URL], how: Connecting) -> None:
    """Let the servers' choice decide where each connection goes, and tell it of lost ones."""
    dialect, servers = engine.dialect, how.servers
    assert isinstance(dialect, TimedDialect)
    arguments = [_arguments(dialect, url, how) for url in urls]

    def open_one(place: int) -> TimedConnection:
        # In no transaction, so that SQLAlchemy can still set how they begin.
        connection: TimedConnection = TimedConnection.connect(autocommit=True, **arguments[place])
        connection.answer_seconds = how.answer_seconds
        return connection

    if servers is None:
        dialect.connect_by = lambda *_, **__: open_one(0)
        return
    dialect.connect_by = lambda *_, **__: servers.connect(open_one)

    @event.listens_for(engine, "handle_error")
    def doubt(context: ExceptionContext) -> None:
        if context.is_disconnect:
            servers.doubt()


def _arguments(dialect: TimedDialect, url: URL, how: Connecting) -> dict[str, Any]:
    """Return the driver's arguments."""
    _, options = dialect.create_connect_args(timed(url))
    settings = dict(_SESSION_SETTINGS)
    if how.statement_seconds:
        settings["statement_timeout"] = f"{how.statement_seconds}s"
    if socket := url.query.get(url_forms.SOCKET):
        options["host"] = socket
    return {
        **options,
        # The URL alone says where a connection goes, and not PGHOSTADDR or PGPORT.
        "hostaddr": "",
        "port": url.port or url_forms.POSTGRESQL.port,
        "connect_timeout": CONNECT_SECONDS,
        # After a ROLLBACK, psycopg forgets what was prepared, and says so to the server: that would
        # cost two more answers for each statement, as what was only read is rolled back.
        "prepare_threshold": PREPARED_AFTER if how.is_autocommit else None,
        "application_name": "warren",
        "client_encoding": "utf8",
        # What was sent and not confirmed for so long is lost, and with it the connection.
        "tcp_user_timeout": how.answer_seconds * 1_000,
        "gssencmode": "disable",
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        **_tls(url),
    }


def _tls(url: URL) -> dict[str, str]:
    """Return the options of TLS; with an authority, certificate and name are verified."""
    options = {name: str(value) for name, value in url.query.items() if name.startswith("ssl")}
    check_tls_files(url, ("sslrootcert", "sslcert", "sslkey"))
    if "sslrootcert" in options:
        options["sslmode"] = "verify-full"
    if not options and url_forms.is_local(url.host or "localhost"):
        return {"sslmode": "disable"}
    return options


def _check(connection: Any, _record: object, _proxy: object) -> None:
    """Replace a connection that was lost while nobody used it."""
    if connection.is_stale():
        raise InvalidatePoolError("the server has closed the connection")


def _leave_if_read_only(context: ExceptionContext) -> None:
    """Give up all connections of this process to a server that takes no writes.

    Those that are busy are closed when they are returned. The unit of work is tried again.
    """
    state = getattr(context.original_exception, "sqlstate", None)
    if context.engine is None or state != READ_ONLY_STATE:
        return
    context.is_disconnect = True
    for engine in list(_ENGINES):
        if engine.url == context.engine.url:
            engine.dispose()


def _limit_idle_time(connection: Connection) -> None:
    """Make the server end an idle writing transaction sooner."""
    if connection.get_execution_options().get("warren_writing", False):
        seconds = WRITING_IDLE_LIMIT_SECONDS
        connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = '{seconds}s'")


def _state(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
