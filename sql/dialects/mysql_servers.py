"""What MariaDB and MySQL servers say of themselves, asked on connections of the driver.

None of it needs a right. Replication requires that each server has an id of its own. The nodes of a
Galera cluster, or of a MySQL group, commit together, so they count as one server.
"""

from typing import Any

from warren.sql.dialects.dialect import ServerFacts

#: The id of a server, which replication requires to be different on each, and whether it is
#: read-only: so a primary that becomes read-only is looked at again.
NUMBER = "CONCAT(@@server_id, '/', @@global.read_only)"
_OFF = (None, 0, "0", "OFF", "")
_GALERA, _GROUP = "wsrep_cluster_state_uuid", "group_replication_group_name"
#: Whether both threads of a replica work; MariaDB only. A replica that has lost its primary is OFF.
_REPLICATES = "Slave_running"


def facts(connection: Any) -> ServerFacts:
    """Return what the server says of itself."""
    [(server_id, is_read_only, number)] = _rows(
        connection, f"SELECT @@server_id, @@global.read_only, {NUMBER}"
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
