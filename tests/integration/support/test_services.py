"""The private services that all other tests stand on."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support import mariadb as mariadb_server
from tests.support import postgresql as postgresql_server
from tests.support.eventually import eventually
from tests.support.processes import descendants
from tests.support.rabbitmq import PrivateRabbit
from tests.support.server_words import ON_POSTGRESQL, DatabaseServer

ROOT = Path(__file__).parents[3]
SERVER = (postgresql_server if ON_POSTGRESQL else mariadb_server).SERVER


def open_channel(url: str) -> BlockingChannel:
    return pika.BlockingConnection(pika.URLParameters(url)).channel()


def publish_durably(url: str) -> None:
    channel = open_channel(url)
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    channel.connection.close()


def count_kept(url: str) -> int:
    count: int = open_channel(url).queue_declare("kept", durable=True).method.message_count
    return count


def listening_addresses(pids: set[int]) -> set[str]:
    """Return the local addresses, in the kernel's hexadecimal, on which the processes listen."""
    sockets = {
        link.readlink()
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {
        row[1].partition(":")[0]
        for row in rows
        if row[3] == "0A" and Path(f"socket:[{row[9]}]") in sockets
    }


@pytest.mark.release
def test_broker_keeps_confirmed_messages_over_kill_and_forgets_them_by_wipe(
    own_rabbitmq: PrivateRabbit,
) -> None:
    publish_durably(own_rabbitmq.url)
    own_rabbitmq.settle()

    own_rabbitmq.kill()
    own_rabbitmq.start()

    assert count_kept(own_rabbitmq.url) == 1

    own_rabbitmq.stop()
    own_rabbitmq.wipe()
    own_rabbitmq.start()

    assert count_kept(own_rabbitmq.url) == 0


def test_broker_and_all_its_processes_listen_on_loopback_only(rabbitmq: PrivateRabbit) -> None:
    pids = {process.pid for process in rabbitmq.processes()}

    addresses = listening_addresses(pids)

    assert addresses <= {"0100007F", "00000000000000000000000001000000"}
    assert "0100007F" in addresses


@pytest.mark.release
def test_stopped_broker_leaves_no_process(own_rabbitmq: PrivateRabbit) -> None:
    processes = own_rabbitmq.processes()
    assert {"beam.smp", "epmd"} <= {process.name for process in processes}

    own_rabbitmq.terminate()

    assert [process for process in processes if process.is_alive] == []


def test_added_user_may_do_only_what_the_patterns_allow(rabbitmq: PrivateRabbit) -> None:
    rabbitmq.add_user("reader", "secret", configure="^$", write="^$", read="^mine$")

    channel = open_channel(rabbitmq.vhost_url("/", "reader", "secret"))

    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.queue_declare("other")


@pytest.mark.parametrize("_round", range(2))
def test_each_test_has_a_vhost_of_its_own(vhost: str, _round: int) -> None:
    assert count_kept(vhost) == 0

    publish_durably(vhost)

    assert count_kept(vhost) == 1


def test_database_keeps_committed_rows_over_kill(own_mariadb: DatabaseServer) -> None:
    own_mariadb.create_database("kept")
    own_mariadb.execute("CREATE TABLE t (n INT)", database="kept")
    own_mariadb.execute("INSERT INTO t VALUES (7)", database="kept")

    own_mariadb.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", own_mariadb.port))
    own_mariadb.start()

    assert own_mariadb.execute("SELECT n FROM t", database="kept") == [(7,)]


def test_databases_are_fresh_and_speak_four_byte_utf8(mariadb: DatabaseServer) -> None:
    names = [mariadb.create_database().rpartition("/")[2] for _ in range(2)]

    for name in names:
        mariadb.execute("CREATE TABLE t (letter VARCHAR(1))", database=name)
        mariadb.execute("INSERT INTO t VALUES ('😀')", database=name)

    kept = [mariadb.execute("SELECT letter FROM t", database=name) for name in names]
    assert kept == [[("😀",)]] * 2


def start_owner(kind: type[DatabaseServer], folder: Path) -> "subprocess.Popen[bytes]":
    """Start a program that owns a database server, as a test session does."""
    code = (
        "import sys, pathlib\n"
        f"from {kind.__module__} import {kind.__name__}\n"
        f"{kind.__name__}(pathlib.Path({str(folder)!r})).start()\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_services_end_when_the_tests_are_killed(mariadb: DatabaseServer, tmp_path: Path) -> None:
    with start_owner(type(mariadb), tmp_path / "server") as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        tree = descendants(owner.pid)
        assert SERVER in {process.name for process in tree}

        owner.send_signal(signal.SIGKILL)

        eventually(lambda: not any(process.is_alive for process in tree))
