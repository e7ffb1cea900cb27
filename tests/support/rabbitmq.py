"""A private RabbitMQ on 127.0.0.1 with its own data, ports and cookie; ended with the tests."""

import os
import signal
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import pika.exceptions

from tests.support import rabbitmq_control
from tests.support.eventually import eventually
from tests.support.ports import free_ports
from tests.support.processes import Process, basic_environment, descendants, stop
from tests.support.service import Service

# Not the wrappers in /usr/sbin, which change the user and the folders.
_BIN = Path("/usr/lib/rabbitmq/bin")

#: Shares of the machine's memory: with the first its alarm rings, the second is its default.
NO_MEMORY, ENOUGH_MEMORY = 0.000001, 0.4

#: A file in its folder, in which it is started: a path could contain a space.
_CONTROL = "control.erl"

_CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
disk_free_limit.absolute = 20MB
log.file.level = info
"""

_ADD_VHOST = """
ok = rabbit_vhost:add(<<"%s">>, <<"tests">>),
ok = rabbit_auth_backend_internal:set_permissions(
    <<"guest">>, <<"%s">>, <<".*">>, <<".*">>, <<".*">>, <<"tests">>).
"""

_ADD_USER = """
ok = rabbit_auth_backend_internal:add_user(<<"%s">>, <<"%s">>, <<"tests">>),
ok = rabbit_auth_backend_internal:set_permissions(
    <<"%s">>, <<"%s">>, <<"%s">>, <<"%s">>, <<"%s">>, <<"tests">>).
"""

#: Connections end with their vhost, as do queues and exchanges.
_RESET = """
vm_memory_monitor:set_vm_memory_high_watermark(0.4),
application:set_env(rabbit, consumer_timeout, 1_800_000),
application:set_env(rabbit, channel_tick_interval, 60_000),
lists:foreach(fun(Name) -> rabbit_vhost:delete(Name, <<"tests">>) end, rabbit_vhost:list_names()),
rabbit_vhost:add(<<"/">>, <<"tests">>),
rabbit_auth_backend_internal:set_permissions(
    <<"guest">>, <<"/">>, <<".*">>, <<".*">>, <<".*">>, <<"tests">>).
"""


@dataclass(frozen=True)
class Membership:
    """What the nodes of one cluster share; `settings` are lines of their configuration."""

    epmd_port: int
    cookie: str
    settings: str = ""


class PrivateRabbit:
    """One broker; after `stop` or `kill`, `start` finds the same data at the same port.

    With `owner` it ends with that process. With the `facts` of a running one it is that one. With
    a `membership` it is to join a cluster, whose epmd runs already.
    """

    def __init__(
        self,
        folder: Path,
        *,
        owner: int | None = None,
        facts: dict[str, Any] | None = None,
        membership: Membership | None = None,
    ) -> None:
        self._folder = folder
        self._owner = owner
        self._membership = membership
        self._data = folder / "data"
        self._service: Service | None = None
        self._is_stopped = False
        self._keeper: int = facts["keeper"] if facts else 0
        if facts is None:
            self.port, self._dist_port, self._epmd_port, self._control_port = free_ports(4)
            self.node = f"warren{uuid.uuid4().hex[:12]}@127.0.0.1"
            self._beam = 0
        else:
            self.port, self._dist_port, self._epmd_port, self._control_port = facts["ports"]
            self.node, self._beam = facts["node"], facts["pid"]
        if membership:
            self._epmd_port = membership.epmd_port

    def facts(self) -> dict[str, Any]:
        """Return what another process needs to use this running broker, but not to end it."""
        assert self._service is not None
        return {
            "ports": (self.port, self._dist_port, self._epmd_port, self._control_port),
            "node": self.node,
            "pid": self._beam,
            "keeper": self._service.keeper,
        }

    @staticmethod
    def is_installed() -> bool:
        """Whether RabbitMQ is installed."""
        return (_BIN / "rabbitmq-server").exists()

    @property
    def url(self) -> str:
        """The URL of the default vhost for the user guest, who may connect locally."""
        return self.vhost_url("/")

    def vhost_url(self, vhost: str, user: str = "guest", password: str = "guest") -> str:
        """Return the URL of a vhost for a user."""
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{vhost.replace('/', '%2F')}"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of RabbitMQ, such as (3, 10, 8)."""
        return tuple(map(int, self.evaluate("rabbit_misc:version().").strip('"').split(".")))

    @property
    def pid(self) -> int:
        """The id of the broker's process, for signals."""
        return self._beam

    def processes(self) -> list[Process]:
        """Return its live processes; empty if it is stopped."""
        if self._keeper:
            return descendants(self._keeper)
        return self._service.processes() if self._service else []

    def start(self) -> None:
        """Start the broker and wait until it serves AMQP: 5 s, and 1 s after `stop`."""
        if self._is_stopped:
            self._is_stopped = False
            self.evaluate("rabbit:start().")
            return
        assert self._service is None, "started twice"
        self._write_settings()
        self._service = Service(
            [str(_BIN / "rabbitmq-server")],
            env=self._environment(),
            output=self._folder / "output.log",
            owner=self._owner,
        )
        try:
            eventually(self._answers, seconds=180.0, every=0.05)
        except BaseException:
            self._service.end()
            self._service = None
            raise
        self._beam = self._service.pid_of("beam.smp")

    def stop(self) -> None:
        """Stop cleanly: connections and the port are closed, all data is written.

        Its process stays, as with `rabbitmqctl stop_app`: most of a start is loading its code.
        """
        self.evaluate("rabbit:stop().")
        self._is_stopped = True

    def terminate(self) -> None:
        """Stop cleanly by SIGTERM, with its process."""
        self._end_by(signal.SIGTERM)

    def close(self) -> None:
        """End it at once and for good, without flushing its data."""
        self._is_stopped = False
        service, self._service = self._service, None
        if service is not None:
            service.end()

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        self._end_by(signal.SIGKILL)

    def freeze(self) -> None:
        """Freeze it, with its connections open, until `thaw`."""
        stop(self.pid)

    def thaw(self) -> None:
        """Let it continue."""
        os.kill(self.pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Delete all data of a stopped broker: queues, users, vhosts."""
        assert self._is_stopped, "stop it first"
        # RabbitMQ 4.3 has no Mnesia any more, and 3.10 no `rabbit_db` yet.
        self.evaluate(
            "ok = try rabbit_db:reset() catch error:undef -> rabbit_mnesia:force_reset() end."
        )

    def heal(self) -> None:
        """Restore its first state: no alarm, and nothing that tests have left."""
        if self._service is None or self._is_stopped:
            self.start()
        self.thaw()
        self.evaluate(_RESET)

    def set_memory_limit(self, share: float) -> None:
        """Let its memory alarm ring when it uses more than this share of the machine's memory."""
        self.evaluate(f"vm_memory_monitor:set_vm_memory_high_watermark({share:f}).")

    def evaluate(self, expressions: str) -> str:
        """Return the value of the last of these Erlang expressions; a dot ends them."""
        return rabbitmq_control.evaluate(self._control_port, self._cookie, expressions)

    def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl and return its output; each call takes 1 s."""
        done = subprocess.run(
            [str(_BIN / "rabbitmqctl"), "--quiet", "--node", self.node, *arguments],
            env=basic_environment() | self._environment(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"rabbitmqctl {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def settle(self) -> None:
        """Make it write declarations to disk.

        RabbitMQ confirms a queue's declaration before it is on disk: after a `kill` within
        milliseconds the queue may be gone, with confirmed messages in it (seen with 3.10).
        """
        self.evaluate("mnesia:sync_log().")

    def add_vhost(self) -> str:
        """Add an empty vhost with access for guest, and return its name."""
        name = f"test-{uuid.uuid4().hex[:12]}"
        self.evaluate(_ADD_VHOST % (name, name))
        return name

    def add_user(
        self,
        name: str,
        password: str,
        *,
        configure: str,
        write: str,
        read: str,
        vhost: str = "/",
    ) -> None:
        """Add a user with these permissions (regular expressions) in a vhost."""
        values = (name, password, name, vhost, configure, write, read)
        self.evaluate(_ADD_USER % tuple(value.replace("\\", r"\\") for value in values))

    def _end_by(self, number: signal.Signals) -> None:
        self._is_stopped = False
        service, self._service = self._service, None
        if service is None:
            return
        service.signal(self._beam, number)
        service.wait(30.0)
        service.end()

    def _answers(self) -> bool:
        assert self._service is not None
        if self._service.has_ended:
            text = f"RabbitMQ ended at its start: {self._service.last_words()}"
            raise RuntimeError(text)
        try:
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
            self.evaluate("ok.")
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def _write_settings(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        more = self._membership.settings if self._membership else ""
        (self._folder / "rabbitmq.conf").write_text(_CONFIG.format(port=self.port) + more)
        (self._folder / "enabled_plugins").write_text("[].\n")
        (self._folder / "rabbitmq-env.conf").touch()
        cookie = self._folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(self._membership.cookie if self._membership else uuid.uuid4().hex)
            cookie.chmod(0o400)
        control = self._folder / _CONTROL
        control.touch(mode=0o600)
        control.write_text(rabbitmq_control.server(self._control_port, self._cookie))

    @property
    def _cookie(self) -> str:
        return (self._folder / ".erlang.cookie").read_text()

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        return {
            "HOME": str(folder),
            # A long name may be an address, which needs no resolving.
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_MNESIA_BASE": str(self._data),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # Erlang's schedulers would otherwise busy-wait and take processor time from the tests.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1}"
                " +sbwt none +sbwtdcpu none +sbwtdio none"
                f' -eval file:eval("{_CONTROL}")'
            ),
        }
