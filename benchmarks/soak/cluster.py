"""The cluster of a soak: real commands behind proxies, started again when they have died."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks.gateway.two_gateways import TwoGateways
from benchmarks.soak import handlers
from benchmarks.soak.jobs import APP, REMOTE_APP
from benchmarks.soak.services import Services
from tests.support.command import Command
from tests.support.deployment import Deployment
from tests.support.processes import Process

DATABASE = "warren_soak"
SCHEDULERS, EXECUTORS = 2, 3
#: How long a run takes at an executor behind gateways.
REMOTE_RUN_SECONDS = 0.8
#: Processes younger than this have not yet got the memory that they need.
SETTLED_SECONDS = 60.0
ROOT = Path(__file__).parents[2]


class SoakCluster:
    """Two schedulers and three executors; `deployment` reads the database by a way of its own."""

    def __init__(self, services: Services, slots: int) -> None:
        self.services = services
        services.create_database(DATABASE)
        url = services.judges_url(DATABASE)
        self.vhost = services.broker.nodes[0].add_vhost()
        broker_url = services.broker_url(self.vhost)
        folder = services.folder / "warren"
        self.deployment = Deployment(folder, database_url=url, broker_url=broker_url)
        self.deployment.app = APP
        self.deployment.add_app(APP)
        self.deployment.handlers = shutil.copy(handlers.__file__, folder / "soak_handlers.py")
        self.book_path = folder / "book"
        self.deployment.env |= {
            "WARREN_DATABASE_URL": services.database_urls(DATABASE),
            "WARREN_SLOTS": str(slots),
            "PYTHONPATH": str(ROOT),
            **services.topology.settings,
        }
        self._start: dict[str, Callable[[], Command]] = {
            f"scheduler-{number}": self.deployment.scheduler for number in range(SCHEDULERS)
        } | {
            f"executor-{number}": self._executor_maker(f"executor-{number}")
            for number in range(EXECUTORS)
        }
        self.commands: dict[str, Command] = {}
        self.gateways: TwoGateways | None = None
        self.memory: list[float] = []
        self.restarts = 0

    def start(self) -> None:
        """Start everything, and wait until runs can be sent."""
        self._start_all("scheduler")
        self.deployment.await_schedulers(*self.chosen("scheduler"))
        if self.services.topology.has_gateways:
            self.gateways = self._start_gateways()
        self._start_all("executor")
        self.deployment.await_executors(*self.chosen("executor"))

    def chosen(self, kind: str) -> list[Command]:
        """Return the commands of one kind."""
        return [one for name, one in self.commands.items() if name.startswith(kind)]

    def supervise(self) -> None:
        """Start again what has died, as a process supervisor does, and lead past lost servers."""
        self.services.switch()
        for name, command in self.commands.items():
            if not command.is_running:
                self.restarts += 1
                self.commands[name] = self._start[name]()

    def sample_memory(self) -> None:
        """Note the mean memory of the processes that are old enough, in MB."""
        sizes = []
        for command in self.commands.values():
            try:
                process = psutil.Process(command.pid)
                if time.time() - process.create_time() > SETTLED_SECONDS:
                    sizes.append(process.memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                continue
        if sizes:
            self.memory.append(sum(sizes) / len(sizes))

    def orphans(self) -> list[Process]:
        """Return the processes of runs, once all have ended, and those of dead commands."""
        left = (*self.deployment.processes_of_runs(), *self.deployment.strays())
        return list({one.pid: one for one in left}.values())

    def close(self) -> None:
        """End all that was started here."""
        for proxy in self.services.proxies:
            proxy.heal()
        for command in self.commands.values():
            command.send(signal.SIGCONT)
        if self.gateways:
            self.gateways.close()
        with suppress(AssertionError):  # the verdict has told what was left
            self.deployment.end(self.deployment.running())
        for left in self.orphans():
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGKILL)
        self.deployment.database.close()

    def _start_all(self, kind: str) -> None:
        for name, start in self._start.items():
            if name.startswith(kind):
                self.commands[name] = start()

    def _start_gateways(self) -> TwoGateways:
        """Start gateways and executors behind them, of an app of their own."""
        self.deployment.add_app(REMOTE_APP)
        self.deployment.app = REMOTE_APP
        gateways = TwoGateways(self.deployment, run_seconds=REMOTE_RUN_SECONDS)
        gateways.start()
        self.deployment.app = APP
        return gateways

    def _executor_maker(self, address: str) -> Callable[[], Command]:
        return lambda: self.deployment.executor(address, app=APP)
