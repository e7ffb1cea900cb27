"""Schedulers and an executor on private servers: real processes, started and stopped here."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import func, literal_column, select, text
from sqlalchemy.orm import Session

from benchmarks import cpu
from benchmarks.servers import Servers
from benchmarks.simulated import APP as SIMULATED
from benchmarks.simulated import SimulatedExecutors
from tests.support.acting import NamedCommands
from tests.support.eventually import eventually
from tests.support.service import Service
from warren.broker.messages import boot_seconds
from warren.broker.signing import ClusterKeys, Sealer
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.routing.routes import planned_shards
from warren.sql.clock import DatabaseClock
from warren.sql.engine import Database
from warren.sql.ids import RunIds
from warren.sql.models import Job, Run
from warren.sql.registry import apps
from warren.sql.registry.cluster import cluster_id
from warren.sql.run_status import OPEN, Kind, RunStatus
from warren.sql.runs import planned_runs
from warren.sql.schema import migration

APP = "bench"
SLOTS = 8
SECRET = "only for measuring, on this machine alone"
HANDLERS = Path(__file__).with_name("handlers.py")


class Stack:
    """One scheduler or several, and one executor of SLOTS slots, started by their real commands.

    Args:
        servers: the services.
        name: of the folder; unique among the stacks on these servers.
        url: a database that was filled before; by default a new empty one.

    """

    def __init__(self, servers: Servers, *, name: str = "warren", url: str | None = None) -> None:
        self._servers = servers
        self._folder = servers.folder / name
        self._folder.mkdir()
        self.starts_file = self._folder / "starts"
        self._url = url or servers.database.create_database()
        self._broker_url = servers.rabbitmq.vhost_url(servers.rabbitmq.add_vhost())
        self.database = Database(self._url)
        migration.upgrade(self.database)
        for app in (APP, SIMULATED):
            self.database.write(lambda session, app=app: apps.ensure(session, app))  # type: ignore[misc]
        self.clock = DatabaseClock(self.database, monotonic=boot_seconds)
        self._commands = NamedCommands(self.database, self.clock.now_ms, who="bench")
        self._ids = RunIds(self.database)
        self._services: list[Service] = []
        self._started: list[Service] = []
        self._watched: dict[str, cpu.Clock] = {}

    def start(
        self,
        *,
        schedulers: int = 1,
        env: Mapping[str, str] | None = None,
        executor_env: Mapping[str, str] | None = None,
    ) -> None:
        """Start all processes; `env` is for the schedulers."""
        app = ["--app", APP, "--address", f"{APP}-1", str(HANDLERS)]
        numbers = ["", *map(str, range(2, schedulers + 1))]
        self._services = [
            self.serve("executor", "executor", *app, env=executor_env),
            *(self.serve(f"scheduler{number}", "scheduler", env=env) for number in numbers),
        ]

    def clocks(self) -> dict[str, cpu.Clock]:
        """Return the processor clocks of all processes, including this one."""
        executor, *schedulers = (service.processes()[0].pid for service in self._services)
        return {
            **self._servers.clocks(),
            "scheduler": lambda: sum(map(cpu.own, schedulers)),
            "executor": lambda: cpu.own(executor),
            "zygote, job processes": lambda: cpu.below(executor),
            "benchmark": time.process_time,
            **self._watched,
        }

    def watch(self, name: str, pid: int) -> None:
        """Count the processor time of another process from now on."""
        self._watched[name] = lambda: cpu.own(pid)

    @property
    def schema_name(self) -> str:
        """The name of the database on its server."""
        return self._url.rpartition("/")[2]

    def rows_read(self) -> int:
        """Return how many rows the database server has read so far."""
        return self._servers.rows_read()

    def audit(self) -> None:
        """Recompute every due time.

        Raises:
            AssertionError: one was lost or fired twice.

        """
        until_ms = self.clock.now_ms()
        report = audit(self.database, since_ms=0, until_ms=until_ms, timezone="UTC")
        assert report.is_sound, [job for job in report.jobs if not job.is_sound]

    def close(self) -> None:
        """Stop all processes, with everything that they started."""
        for service in self._started:
            service.end()
        self.database.close()

    def apply(self, specs: Sequence[JobSpec]) -> list[int]:
        """Apply jobs; return their ids in the same order."""
        self._commands.apply([], specs, dry_run=False, prune=False)
        names = [spec.name for spec in specs]
        known = select(Job.name, Job.id).where(Job.name.in_(names))
        ids = self.database.read(lambda s: dict(s.execute(known).all()))
        return [ids[name] for name in names]

    def limit(self, name: str, at_once: int) -> None:
        """Make or change a limit."""
        self._commands.limit(name, at_once=at_once)

    def begin(self, names: Sequence[str]) -> None:
        """Start jobs' schedules."""
        for name in names:
            self._commands.start(name)

    def stop(self, names: Sequence[str]) -> None:
        """Stop jobs' schedules."""
        for name in names:
            self._commands.stop(name)

    def simulated(self, count: int) -> SimulatedExecutors:
        """Yield executors that answer at once; they join and leave with the block."""
        cluster = self.database.read(cluster_id)
        return SimulatedExecutors(
            count,
            broker_url=self._broker_url,
            sealer=Sealer(ClusterKeys(SECRET), cluster, self.clock.now_ms),
            now_ms=self.clock.now_ms,
        )

    def plan(
        self,
        job_ids: Sequence[int],
        count: int,
        *,
        due_at: int,
        handler: str = "noop",
        param: str = "",
    ) -> None:
        """Plan runs, spread over the jobs, all due at the same time."""
        first = self.database.read(lambda s: s.get_one(Job, job_ids[0]))
        versions = self._script_versions(job_ids)
        planned = [
            planned_runs.NewRun(
                app_id=first.app_id,
                job_id=job_ids[number % len(job_ids)],
                handler=handler,
                param=param,
                kind=Kind.API,
                scheduled_at=due_at,
                due_at=due_at,
                retries_left=0,
                origin_id=None,
                shard_total=planned_shards(first.route),
                script_version=versions[job_ids[number % len(job_ids)]],
            )
            for number in range(count)
        ]
        self.database.write(lambda session: planned_runs.plan(session, planned, self._ids))

    def _script_versions(self, job_ids: Sequence[int]) -> dict[int, int | None]:
        known = select(Job.id, Job.script_version).where(Job.id.in_(job_ids))
        return self.database.read(lambda s: dict(s.execute(known).all()))

    def wait(
        self, is_so: Callable[[Session], bool], seconds: float = 120.0, *, every: float = 0.01
    ) -> int:
        """Wait for a state of the rows; return the database's time when it was seen."""
        eventually(lambda: self._is_up() and self.database.read(is_so), seconds, every=every)
        return self.clock.now_ms()

    def check(self, job_ids: Sequence[int]) -> int:
        """Return how many runs the jobs had; all must be SUCCEEDED, and each started once.

        Runs that were cancelled because their job was stopped are left out.

        Raises:
            AssertionError: some were not.

        """
        by_status = self._by_status(job_ids)
        assert set(by_status) == {RunStatus.SUCCEEDED}, (
            f"not every run succeeded: {by_status}, {self._failure(job_ids)}"
        )
        starts = self.starts_file.read_bytes().split()
        assert len(starts) == len(set(starts)), "a run was started twice"
        return int(by_status[RunStatus.SUCCEEDED])

    def count(self, job_ids: Sequence[int]) -> int:
        """Return how many runs the jobs have had, without cancelled ones."""
        return sum(self._by_status(job_ids).values())

    def _by_status(self, job_ids: Sequence[int]) -> dict[str, int]:
        counted = (
            select(Run.status, func.count())
            .where(Run.job_id.in_(job_ids), Run.status != RunStatus.CANCELLED)
            .group_by(Run.status)
        )
        return self.database.read(lambda s: dict(s.execute(counted).all()))

    def _is_up(self) -> bool:
        for service in self._services:
            if service.has_ended:
                raise RuntimeError(f"a process ended: {service.last_words()}")
        return True

    def _failure(self, job_ids: Sequence[int]) -> str:
        good = (RunStatus.SUCCEEDED, RunStatus.CANCELLED)
        words = self.rows(job_ids, Run.status, Run.message)
        return next(str(row) for row in words if row[0] not in good)

    def rows(self, job_ids: Sequence[int], *columns: object) -> list[tuple[object, ...]]:
        """Return columns of the jobs' runs."""
        statement = select(*columns).where(Run.job_id.in_(job_ids))  # type: ignore[call-overload]
        return self.database.read(lambda s: [tuple(row) for row in s.execute(statement)])

    def note_changes(self) -> None:
        """Let the database itself note when a run's row last changed, as when it got its result.

        Only a benchmark's own database has this column.
        """
        for change in self._servers.measured.note_changes:
            self.database.write(lambda session, change=change: session.execute(text(change)))  # type: ignore[misc]

    def changed_ms(self, job_ids: Sequence[int], at_ms: int) -> list[float]:
        """Return when the rows of the jobs' runs of a tick last changed."""
        changed = literal_column(self._servers.measured.changed_ms)
        rows = self.rows(job_ids, Run.scheduled_at, changed)
        return [float(str(at)) for tick, at in rows if tick == at_ms]

    def serve(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Service:
        """Start a `warren` command beside scheduler and executor; it stops with them."""
        program = str(Path(sys.executable).with_name("warren"))
        return self._begin(name, [program, *arguments], self._environment() | dict(env or {}))

    def serve_module(self, module: str, *arguments: str) -> Service:
        """Start a program of the benchmark; it stops with the others."""
        return self._begin(module, [sys.executable, "-m", module, *arguments], self._environment())

    def _environment(self) -> dict[str, str]:
        return {
            "WARREN_DATABASE_URL": self._url,
            "WARREN_BROKER_URL": self._broker_url,
            "WARREN_SECRET": SECRET,
            "WARREN_SLOTS": str(SLOTS),
            "WARREN_STATE_DIR": str(self._folder / "state"),
            "WARREN_LOG_DIR": str(self._folder / "logs"),
            "WARREN_TIMEZONE": "UTC",
            "WARREN_LOG_LEVEL": "warning",
            "BENCH_STARTS": str(self.starts_file),
            "PYTHONPATH": str(HANDLERS.parent.parent),
        }

    def _begin(self, name: str, command: list[str], environment: dict[str, str]) -> Service:
        service = Service(command, env=environment, output=self._folder / f"{name}.log")
        self._started.append(service)
        return service


@contextmanager
def running(servers: Servers, *, name: str = "warren") -> Iterator[Stack]:
    """Start a stack; audit it at the end, and stop it whatever happens."""
    stack = Stack(servers, name=name)
    try:
        stack.start()
        yield stack
        stack.audit()
    finally:
        stack.close()


def none_open(session: Session) -> bool:
    """Whether every run is final."""
    return session.execute(select(Run.id).where(Run.status.in_(OPEN)).limit(1)).first() is None


def none_unsent(session: Session) -> bool:
    """Whether the broker has confirmed the trigger of every run."""
    unsent = (RunStatus.PLANNED, RunStatus.ROUTED)
    return session.execute(select(Run.id).where(Run.status.in_(unsent)).limit(1)).first() is None


def count_of_tick(session: Session, at_ms: int) -> int:
    """Return how many runs there are of an instant's ticks."""
    counted = select(func.count()).where(
        Run.scheduled_at == at_ms, Run.status != RunStatus.CANCELLED
    )
    return session.execute(counted).scalar_one()
