"""A private Galera cluster of MariaDB on 127.0.0.1."""

import os
import re
import secrets
import subprocess
from contextlib import suppress
from pathlib import Path

import pymysql

from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_ports

PROVIDER = Path("/usr/lib/galera/libgalera_smm.so")
#: Has the program by which a node gets the data of another.
_METHODS = Path(__file__).with_name("galera_methods")
_RECOVERED = re.compile(r"WSREP: Recovered position: (\S+)")
#: For how many seconds a server may stand still that is asked how it is.
PATIENCE = 1
_OPTIONS = (
    "--wsrep-on=ON",
    f"--wsrep-provider={PROVIDER}",
    "--wsrep-cluster-name=warren",
    "--wsrep-node-address=127.0.0.1",
    "--wsrep-sst-method=copy",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
)


class GaleraCluster:
    """Nodes that all take writes; each can be killed, stopped and started again by itself."""

    def __init__(self, folder: Path, size: int = 3) -> None:
        password = secrets.token_hex(8)
        self.nodes = [
            GaleraNode(folder / f"node-{number}", password, is_first=number == 0)
            for number in range(size)
        ]
        everyone = ",".join(f"127.0.0.1:{node.group_port}" for node in self.nodes)
        for node in self.nodes:
            node.cluster_address = f"gcomm://{everyone}"
        self._serving = self.nodes[0]

    @staticmethod
    def is_installed() -> bool:
        """Whether Galera is installed."""
        return PROVIDER.exists()

    def start(self) -> None:
        """Start all nodes: the first makes the cluster, the others get its data."""
        for node in self.nodes:
            node.start()
            eventually(node.is_ready, every=0.1)

    def is_whole(self) -> bool:
        """Whether each node takes statements and sees every other."""
        return all(node.cluster_size() == len(self.nodes) for node in self.nodes)

    def serving(self) -> PrivateMariaDB:
        """Return a node that takes statements: the one of the last time, if it still does."""
        found = (node for node in (self._serving, *self.nodes) if node.is_ready())
        self._serving = next(found, self._serving)
        return self._serving

    def close(self) -> None:
        """End everything at once and for good."""
        for node in self.nodes:
            node.close()


class GaleraNode(PrivateMariaDB):
    """One node."""

    def __init__(self, folder: Path, password: str, *, is_first: bool) -> None:
        super().__init__(folder, password=password)
        self.group_port, self._catch_up_port = free_ports(2)
        self.cluster_address = ""
        self.environment = {"PATH": f"{_METHODS}:{os.environ['PATH']}"}
        self._makes_cluster = is_first
        self._has_run = False
        if not is_first:
            (folder / "data").mkdir(parents=True)  # it gets the data of another

    def start(self) -> None:
        """Start it; it gets what it has missed from another node."""
        provided = {
            "base_port": self.group_port,
            "gmcast.listen_addr": f"tcp://127.0.0.1:{self.group_port}",
            "ist.recv_addr": f"127.0.0.1:{self._catch_up_port}",
            "gcache.size": "256M",
        }
        words = ";".join(f"{name}={value}" for name, value in provided.items())
        self.options = (
            *_OPTIONS,
            f"--wsrep-provider-options={words}",
            f"--wsrep-cluster-address={self.cluster_address}",
        )
        if self._has_run:
            self.options += (f"--wsrep-start-position={self._position()}",)
        elif self._makes_cluster:
            self.options += ("--wsrep-new-cluster",)
        super().start()
        self._has_run = True
        self._first_statements.unlink(missing_ok=True)  # all nodes have had them with the data

    def is_ready(self) -> bool:
        """Whether it takes statements."""
        return self._status("wsrep_ready") == "ON"

    def cluster_size(self) -> int:
        """Return how many nodes it sees, itself included; 0 if it takes no statements."""
        return int(self._status("wsrep_cluster_size") or 0) if self.is_ready() else 0

    def _status(self, name: str) -> str:
        with suppress(pymysql.MySQLError, OSError):
            return str(self.execute(f"SHOW STATUS LIKE '{name}'", patience=PATIENCE)[0][1])
        return ""

    def _position(self) -> str:
        """Return up to where its data are complete, as its own recovery finds."""
        command = self._command("--wsrep-recover")
        said = subprocess.run(
            command, cwd=self._folder, capture_output=True, text=True, timeout=120, check=True
        )
        return str(_RECOVERED.findall(said.stderr)[-1])
