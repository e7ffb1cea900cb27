"""The services of docker-compose.yml as plain processes, on a RabbitMQ and a MariaDB of the tests.

With docker-compose.ha.yml on top, on three nodes of each. What their images do is done here by
hand: a database and its user, the broker's definitions, and clusters. The files themselves and the
rights in the definitions are read in `tests/unit/test_deployment_files.py`.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.support import compose
from tests.support.command import Command, run_warren
from tests.support.compose import Service
from tests.support.eventually import eventually
from tests.support.galera import GaleraCluster
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_ports
from tests.support.rabbitmq import PrivateRabbit
from tests.support.rabbitmq_cluster import RabbitCluster
from tests.support.server_words import only_mysql
from warren.admin_web.serving.web_process import ConsoleConnections
from warren.broker.messages import Beat, BeatAnswer, Boot, boot_seconds
from warren.broker.rabbitmq.transport import connect
from warren.broker.rpc import AddressedQuestion
from warren.broker.signing import ClusterKeys, app_key
from warren.broker.transport import BrokerSettings
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.registry import presence

ROOT = Path(__file__).parents[2]
SECRET = "a secret of at least thirty-two characters"
SECRETS = {
    "WARREN_SECRET": SECRET,
    "WARREN_APP_SECRET": app_key(SECRET, "examples"),
    "DATABASE_PASSWORD": "database-password-of-the-tests",
    "SCHEDULER_PASSWORD": "scheduler-password-of-the-tests",
    "CONSOLE_PASSWORD": "console-password-of-the-tests",
    "EXECUTOR_PASSWORD": "executor-password-of-the-tests",
    "BROKER_NODES_PASSWORD": "nodes-password-of-the-tests",
}
FILE = ROOT / "docker-compose.yml"
VHOST = "warren"
#: What the names of nodes end with.
NODES = ("", "-2", "-3")

pytestmark = [pytest.mark.release, only_mysql]  # the database of docker-compose.yml
needs_galera = pytest.mark.skipif(
    not GaleraCluster.is_installed(), reason="Galera is not installed: make services"
)


class Host:
    """What a container engine would be: it mounts, resolves names, starts, and looks at health."""

    def __init__(
        self,
        folder: Path,
        brokers: Sequence[PrivateRabbit],
        databases: Sequence[PrivateMariaDB],
        *more_files: Path,
    ) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._brokers = dict(zip(NODES, brokers, strict=False))
        self._databases = dict(zip(NODES, databases, strict=False))
        self._rabbitmq, self._mariadb = brokers[0], databases[0]
        self.console_port, self.api_port = free_ports(2)
        self._running = ExitStack()
        self.services = compose.read_services([FILE, *more_files], SECRETS)
        self.started: dict[str, Command] = {}

    def up(self) -> None:
        """Start every service after those that it depends on."""
        special: dict[str, Callable[[Service], None]] = {
            "definitions": self._make_definitions,
            "broker": self._import_definitions,
            "database": self._make_database,
        }
        for service in compose.in_order(self.services):
            if service.name in special:
                special[service.name](service)
            elif service.is_warren:
                self._start(service)

    def await_executors(self) -> None:
        """Wait until the schedulers know the executors; before that not all queues exist."""
        wanted = {name for name in self.started if name.startswith("executor")}
        eventually(lambda: len(self.executors()) == len(wanted), 90.0)

    def run(self, job: str) -> str:
        """Trigger a job, wait for its end, and return how it ended; "" if it was refused."""
        done = self.warren("scheduler-1", "jobs", "trigger", job, "--wait", "--json")
        return str(json.loads(done.stdout.splitlines()[-1])["status"]) if done.stdout else ""

    def executors(self) -> dict[str, str]:
        """Return the boots of the executors that have registered, by their addresses."""
        url = self.environment(self.services["console"])["WARREN_DATABASE_URL"]
        with closing(Database(url)) as database:
            rows = database.read(lambda session: presence.listing(session, presence.EXECUTOR))
        return {row.address: row.boot_id for row in rows}

    def close(self) -> None:
        """End everything."""
        self._running.close()

    def down(self) -> None:
        """End everything, and leave the tests' services as they were."""
        self.close()
        self._rabbitmq.ctl("delete_vhost", VHOST)
        for user in ("scheduler", "console", "executor-examples"):
            self._rabbitmq.ctl("delete_user", user)
        self._mariadb.execute(f"DROP DATABASE {VHOST}")
        self._mariadb.execute("DROP USER warren@'%'")

    def warren(self, service: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a short command with a service's environment, as `docker compose exec` does."""
        one = self.services[service]
        return run_warren(*words, folder=self.folder, env=self.environment(one))

    def environment(self, service: Service) -> dict[str, str]:
        """Return what a service finds in its environment, with places of this machine."""
        inside = {
            "WARREN_LOG_DIR": "/var/lib/warren/logs",
            "WARREN_STATE_DIR": "/var/lib/warren/state",
        } | service.environment
        if "WARREN_HOST" in inside:
            inside |= {"WARREN_HOST": "127.0.0.1", "WARREN_PORT": str(self.console_port)}
        if "WARREN_API_HOST" in inside:
            inside |= {"WARREN_API_HOST": "127.0.0.1", "WARREN_API_PORT": str(self.api_port)}
        return {name: self._outside(service, value) for name, value in inside.items()}

    def is_healthy(self, service: Service) -> bool:
        """Whether the service's own health check is content."""
        done = self.warren(service.name, *service.healthcheck[1:])
        assert done.returncode == 0, f"{service.name}: {done.stdout}{done.stderr}"
        return True

    def _start(self, service: Service) -> None:
        words = [self._outside(service, word) for word in service.command]
        env = self.environment(service)
        if service.is_one_shot:
            done = run_warren(*words, folder=self.folder, env=env)
            assert done.returncode == 0, f"{service.name}: {done.stderr}"
            return
        command = self._running.enter_context(Command(*words, folder=self.folder, env=env))
        self.started[service.name] = command

    def _make_definitions(self, service: Service) -> None:
        assert service.entrypoint == ["python", "/usr/local/bin/make_definitions.py"]
        words = [self._outside(service, word) for word in service.command]
        program = ROOT / "deploy/rabbitmq/make_definitions.py"
        subprocess.run([sys.executable, program, *words], env=service.environment, check=True)

    def _import_definitions(self, service: Service) -> None:
        self._rabbitmq.ctl("import_definitions", self._outside(service, "/definitions/warren.json"))

    def _make_database(self, service: Service) -> None:
        name, user = service.environment["MARIADB_DATABASE"], service.environment["MARIADB_USER"]
        password = service.environment["MARIADB_PASSWORD"]
        self._mariadb.execute(f"CREATE DATABASE {name}")
        self._mariadb.execute(f"CREATE USER {user}@'%' IDENTIFIED BY '{password}'")
        self._mariadb.execute(f"GRANT ALL ON {name}.* TO {user}@'%'")

    def _outside(self, service: Service, text: str) -> str:
        """Return a text with addresses and mounted places as they are on this machine."""
        for node, database in self._databases.items():
            text = text.replace(f"@database{node}:3306/", f"@127.0.0.1:{database.port}/")
        for node, broker in self._brokers.items():
            text = text.replace(f"@broker{node}:5672/", f"@127.0.0.1:{broker.port}/")
        for source, target in service.volumes:
            place = ROOT / source if source.startswith(".") else self.folder / "volumes" / source
            if text == target or text.startswith(f"{target}/"):
                place.mkdir(parents=True, exist_ok=True)
                text = f"{place}{text.removeprefix(target)}"
        return text


@pytest.fixture(scope="module")
def rabbitmq(_broken_rabbitmq: PrivateRabbit) -> PrivateRabbit:
    """The worker's own broker: the names in the file are the same for every worker."""
    return _broken_rabbitmq


@pytest.fixture(scope="module")
def mariadb(_broken_mariadb: PrivateMariaDB) -> PrivateMariaDB:
    """The worker's own database server, for the same reason."""
    return _broken_mariadb


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq: PrivateRabbit, mariadb: PrivateMariaDB
) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("compose"), [rabbitmq], [mariadb])
    try:
        host.up()
        host.await_executors()
        yield host
    finally:
        host.down()


def test_a_job_runs_on_what_docker_compose_starts(host: Host) -> None:
    assert host.run("host-load") == "SUCCEEDED"


@needs_galera
def test_jobs_run_on_three_nodes_of_each_and_still_do_when_one_of_each_is_gone(
    tmp_path: Path,
) -> None:
    brokers = RabbitCluster(tmp_path / "rabbitmq", len(NODES))
    databases = GaleraCluster(tmp_path / "mariadb", len(NODES))
    with closing(brokers), closing(databases):
        brokers.start()
        databases.start()
        more = ROOT / "docker-compose.ha.yml"
        host = Host(tmp_path / "warren", brokers.nodes, databases.nodes, more)
        with closing(host):
            host.up()
            host.await_executors()
            assert host.run("host-load") == "SUCCEEDED"

            brokers.nodes[0].kill()
            databases.nodes[0].kill()

            assert eventually(lambda: host.run("host-load") == "SUCCEEDED", 120.0, every=1.0)


def test_every_service_is_healthy(host: Host) -> None:
    long_running = [host.services[name] for name in host.started]

    assert len(long_running) == 6
    for service in long_running:
        eventually(lambda one=service: host.is_healthy(one))  # type: ignore[misc]


def test_health_check_tells_a_dead_scheduler(host: Host) -> None:
    dead = {"WARREN_DATABASE_URL": f"sqlite:///{host.folder}/empty.db"}
    assert run_warren("db", "upgrade", folder=host.folder, env=dead).returncode == 0

    done = run_warren("check", "--alive", folder=host.folder, env=dead)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: scheduler: no scheduler on {os.uname().nodename} is alive\n"


def test_applied_jobs_are_those_of_the_examples(host: Host) -> None:
    listed = host.warren("scheduler-1", "jobs", "list", "--json").stdout.splitlines()

    assert "host-load" in {json.loads(line)["name"] for line in listed}


@pytest.mark.parametrize(
    ("exchange", "key"),
    [
        ("", "warren.run.examples.examples-1"),
        ("", "warren.callback"),
        ("warren.trigger", "warren.run.examples.examples-2"),
    ],
)
def test_an_executors_user_cannot_send_triggers(
    host: Host, rabbitmq: PrivateRabbit, exchange: str, key: str
) -> None:
    with connection(rabbitmq) as broker:
        channel = broker.channel()
        channel.confirm_delivery()

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.basic_publish(exchange, key, b"evil")


@pytest.mark.parametrize("queue", ["warren.callback", "warren.run.other.one", "warren.dead"])
def test_an_executors_user_cannot_read_what_is_not_its_apps(
    host: Host, rabbitmq: PrivateRabbit, queue: str
) -> None:
    with connection(rabbitmq) as broker:
        channel = broker.channel()

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            channel.basic_get(queue)


@pytest.mark.parametrize("exchange", ["", "warren.trigger", "warren.reply", "warren.dlx"])
def test_the_consoles_user_can_publish_questions_and_nothing_else(
    host: Host, rabbitmq: PrivateRabbit, exchange: str
) -> None:
    key = "warren.run.examples.examples-1"
    with connection(rabbitmq, "console", "CONSOLE_PASSWORD") as broker:
        asking, other = broker.channel(), broker.channel()
        for channel in (asking, other):
            channel.confirm_delivery()

        with pytest.raises(pika.exceptions.UnroutableError):
            asking.basic_publish("warren.ask", key, b"no trigger gets here", mandatory=True)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            other.basic_publish(exchange, key, b"evil")


@pytest.mark.parametrize(
    "queue", ["warren.callback", "warren.run.examples.examples-1", "warren.dead"]
)
def test_the_consoles_user_reads_and_declares_no_queue_but_its_own(
    host: Host, rabbitmq: PrivateRabbit, queue: str
) -> None:
    with connection(rabbitmq, "console", "CONSOLE_PASSWORD") as broker:
        reading, declaring = broker.channel(), broker.channel()

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            reading.basic_get(queue)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            declaring.queue_declare("warren.answer.scheduler-1")


def test_the_consoles_user_asks_an_executor_and_hears_the_answer(
    host: Host, rabbitmq: PrivateRabbit
) -> None:
    url = rabbitmq.vhost_url(VHOST, "console", SECRETS["CONSOLE_PASSWORD"])
    database = Database(host.environment(host.services["console"])["WARREN_DATABASE_URL"])
    boots = host.executors()
    transport = connect(BrokerSettings(urls=(url,)))
    keys, clock = ClusterKeys(SECRET), DatabaseClock(database, monotonic=boot_seconds)
    connections = ConsoleConnections(transport, database, keys, clock.now_ms)
    eventually(connections.is_ready)

    def ask() -> object:
        boot = Boot("examples", "examples-1", boots["examples-1"])
        question = AddressedQuestion(boot, _are_you_there)
        return connections.requester.ask([question], 5.0)[0]

    assert isinstance(eventually(ask), BeatAnswer)
    connections.close()
    transport.close()
    database.close()
    assert "broker_link_refused" not in host.started["console"].text()


def _are_you_there(question_id: str, reply_to: str) -> Beat:
    return Beat(question_id=question_id, reply_to=reply_to)


@pytest.mark.parametrize("claimed", ["scheduler", "console", "guest"])
def test_nobody_publishes_in_another_accounts_name(
    host: Host, rabbitmq: PrivateRabbit, claimed: str
) -> None:
    with connection(rabbitmq) as broker:
        channel = broker.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(user_id=claimed)

        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="user_id property set to"):
            channel.basic_publish("warren.reply", "heartbeat", b"", properties)


def connection(
    rabbitmq: PrivateRabbit, user: str = "executor-examples", password: str = "EXECUTOR_PASSWORD"
) -> pika.BlockingConnection:
    url = rabbitmq.vhost_url(VHOST, user, SECRETS[password])
    return pika.BlockingConnection(pika.URLParameters(url))


def test_console_tells_its_health_to_whoever_asks(host: Host) -> None:
    def answer() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{host.console_port}/healthz") as page:
                return str(page.read().decode())
        except OSError:
            return ""

    assert eventually(answer)
    assert "admin password: " in host.started["console"].text()
