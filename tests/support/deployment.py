"""A Warren as operators run it: each scheduler and executor is a separate `warren` command."""

import shutil
import sys
import time
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Self

from sqlalchemy import func, select

from tests.support import fault_injection, first_release, recording_handlers
from tests.support.acting import NamedCommands
from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.invariants import assert_sound, read_starts
from tests.support.processes import Process, descendants, environment_of, every_process
from warren.broker.rabbitmq.transport import connect
from warren.broker.signing import ClusterKeys, Sealer, app_key
from warren.broker.transport import BrokerSettings, Confirm, Outgoing, Transport
from warren.database_access import now_ms
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.engine import Database
from warren.sql.jobs.job_names import find as find_job
from warren.sql.models import App, Job, Run, SkippedTicks
from warren.sql.registry import apps, cluster
from warren.sql.run_status import FINAL, RunStatus
from warren.sql.schema import migration

SECRET = "a secret of at least thirty-two characters"
#: Marks all processes of a deployment in their environment.
MARK = "TEST_DEPLOYMENT_MARK"
RUN_MARK = "WARREN_RUN_ID"
GRACE_SECONDS = 1.0


class Deployment:
    """Commands that share one database and one broker, and ways to observe them.

    `app` is the default app of jobs and executors. Reading methods wait with `eventually`; user
    actions go through the command line if that is what is tested, else through the same `Commands`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        database_url: str,
        broker_url: str,
        has_schema: bool = True,
        **settings: str,
    ) -> None:
        """Make the schema of today, unless `has_schema` is false."""
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.app = "demo"
        #: The apps that `executor` need not create.
        self.known_apps: set[str] = set()
        #: Whether long commands are started as programs; see `Command`.
        self.cold = False
        #: The code of another version that commands run from now on; None = today's.
        self.code: Path | None = None
        self.broker_url = broker_url
        self.handlers = shutil.copy(recording_handlers.__file__, folder / "handlers.py")
        self.database = Database(database_url)
        if has_schema:
            migration.upgrade(self.database)
            self.add_app(self.app)
        self.commands = NamedCommands(self.database, self.now_ms, who="the tests")
        self._mark = uuid.uuid4().hex
        self._running: list[Command] = []
        self.env = {
            MARK: self._mark,
            "WARREN_DATABASE_URL": database_url,
            "WARREN_BROKER_URL": broker_url,
            "WARREN_SECRET": SECRET,
            "WARREN_TIMEZONE": "UTC",
            "WARREN_SLOTS": "4",
            "WARREN_GRACE_SECONDS": str(GRACE_SECONDS),
            "WARREN_DRAIN_SECONDS": "10",
        } | {f"WARREN_{name.upper()}": value for name, value in settings.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- processes ----------------------------------------------------------------------------

    def scheduler(self, *fate: str, **settings: Any) -> Command:
        """Start a scheduler; `fate` is an action and a point, see `fault_injection`."""
        env = {f"WARREN_{name.upper()}": str(value) for name, value in settings.items()}
        return self._start("scheduler", fate=fate, env=env)

    def executor(
        self, address: str = "one", *, app: str = "", fate: Sequence[str] = (), **settings: Any
    ) -> Command:
        """Start an executor with the recording handlers; `settings` as in WARREN_…"""
        name = app or self.app
        if name not in self.known_apps:  # only once: later the database may be down
            self.add_app(name)
        arguments = ("executor", "--app", name, "--address", address, self.handlers)
        env = {"WARREN_SECRET": "", "WARREN_APP_SECRET": app_key(SECRET, name)}
        env |= {f"WARREN_{name.upper()}": str(value) for name, value in settings.items()}
        return self._start(*arguments, fate=fate, env=env)

    def gateway(self, env: dict[str, str]) -> Command:
        """Start a gateway for XXL-JOB's executors, with these additional variables."""
        return self._start("gateway", env=env)

    def api(self, port: int) -> Command:
        """Start an API process, and wait until it answers."""
        command = self._start("api", env={"WARREN_API_PORT": str(port)})
        command.wait_for("api_started")
        return command

    def console(self, *fate: str) -> Command:
        """Start a console on a free port; `fate` as for schedulers."""
        return self._start("console", fate=fate, env={"WARREN_PORT": "0"})

    def add_app(self, name: str) -> None:
        """Create an app unless it exists."""
        self.database.write(lambda session: apps.ensure(session, name))
        self.known_apps.add(name)

    def warren(self, *arguments: str) -> str:
        """Run a short command and return its output; it must succeed."""
        done = self._run(*arguments)
        assert done.returncode == 0, f"warren {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def warren_fails(self, *arguments: str) -> str:
        """Run a short command that must exit with status 1; return its output."""
        done = self._run(*arguments)
        assert done.returncode == 1, f"warren {arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def await_schedulers(self, *commands: Command) -> None:
        """Wait until schedulers have started scheduling."""
        for command in commands:
            command.wait_for("scheduler_started")

    def await_executors(self, *commands: Command) -> None:
        """Wait until executors have been welcomed."""
        for command in commands:
            command.wait_for("executor_welcomed")

    def running(self) -> list[Command]:
        """Return the commands that were started here and are still running."""
        return [command for command in self._running if command.is_running]

    def logged(self, *words: str) -> list[str]:
        """Return the log lines of running commands that contain all these words."""
        lines = [line for command in self.running() for line in command.text().splitlines()]
        return [line for line in lines if all(word in line for word in words)]

    def end(self, commands: Collection[Command]) -> None:
        """End commands at once, and check that no process of theirs is left."""
        for command in commands:
            command.close()
        self._running = [command for command in self._running if command not in commands]
        self.assert_nothing_left()

    # -- jobs and runs ------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the database's clock."""
        return now_ms(self.database)

    def job(self, name: str, **fields: Any) -> None:
        """Apply one job, by default with the handler `noop`."""
        self.jobs(JobSpec(**{"name": name, "app": self.app, "handler": "noop", **fields}))

    def jobs(self, *specs: JobSpec) -> None:
        """Apply jobs."""
        self.commands.apply([], specs, dry_run=False, prune=False)

    def trigger(self, name: str, *, param: str | None = None, address: str = "") -> int:
        """Plan a run of a job now and return its id."""
        return self.commands.trigger(
            f"{self.app}/{name}", param=param, addresses=[address] if address else []
        )

    def stop_jobs(self) -> None:
        """Stop all schedules."""
        statement = (
            select(App.name + "/" + Job.name)
            .select_from(Job)
            .join(App, App.id == Job.app_id)
            .where(Job.is_enabled == 1)
        )
        for name in self.database.read(lambda session: list(session.execute(statement).scalars())):
            self.commands.stop(name)

    def runs(self, job: str = "", **where: Any) -> list[Run]:
        """Return runs in order of tick and attempt; of one job or all."""
        if job:
            where["job_id"] = self.job_row(job).id
        statement = (
            select(Run).filter_by(**where).order_by(Run.scheduled_at, Run.job_id, Run.attempt)
        )
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def job_row(self, name: str) -> Job:
        """Return a job of `app`."""
        return self.database.read(lambda session: find_job(session, f"{self.app}/{name}"))

    def run(self, run_id: int) -> Run:
        """Return one run."""
        return self.runs(id=run_id)[0]

    def status(self, run_id: int) -> RunStatus:
        """Return a run's status."""
        return RunStatus(self.run(run_id).status)

    def skips(self, job: str) -> list[SkippedTicks]:
        """Return the skipped ticks of a job."""
        statement = select(SkippedTicks).filter_by(job_id=self.job_row(job).id)
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def await_status(self, run_id: int, *wanted: RunStatus, seconds: float = 60.0) -> Run:
        """Wait until a run has one of these statuses and return it."""

        def look() -> Run | None:
            run = self.run(run_id)
            assert run.status in wanted, f"run {run_id} is {run.status}: {run.message}"
            return run

        found = eventually(look, seconds, every=0.02)
        assert found is not None
        return found

    def await_final(self, *run_ids: int, seconds: float = 90.0) -> list[Run]:
        """Wait until runs are final and return them."""
        return [self.await_status(run_id, *FINAL, seconds=seconds) for run_id in run_ids]

    def await_success(self, run_id: int, seconds: float = 90.0) -> Run:
        """Wait until an attempt of a manually triggered run has succeeded; return it."""

        def look() -> Run | None:
            attempts = self.runs(origin_id=run_id)
            found = [run for run in attempts if run.status == RunStatus.SUCCEEDED]
            assert found, [(run.id, run.status, run.message) for run in attempts]
            return found[0]

        found = eventually(look, seconds, every=0.02)
        assert found is not None
        return found

    def await_all_final(self, seconds: float = 90.0) -> None:
        """Wait until no run is open."""

        def look() -> bool:
            left = [f"{r.id} {r.status} {r.address}" for r in self.runs() if r.status not in FINAL]
            assert not left, f"{len(left)} open runs: {left[:10]}"
            return True

        eventually(look, seconds, every=0.05)

    def await_runs(self, count: int, seconds: float = 120.0) -> None:
        """Wait until there are this many runs."""
        statement = select(func.count()).select_from(Run)
        eventually(
            lambda: self.database.read(lambda s: s.execute(statement).scalar_one()) >= count,
            seconds,
            every=0.05,
        )

    def await_start(self, run_id: int, seconds: float = 60.0) -> dict[str, Any]:
        """Wait until a run's handler has recorded its start; return the record."""
        return eventually(lambda: self.start_of(run_id), seconds, every=0.01) or {}

    def start_of(self, run_id: int) -> dict[str, Any] | None:
        """Return the record of a run's start; None if there is none."""
        return next((start for start in self.starts() if start["run"] == run_id), None)

    def starts(self) -> list[dict[str, Any]]:
        """Return the records of all starts."""
        return read_starts(self.folder / "starts.jsonl")

    # -- by hand ------------------------------------------------------------------------------

    def transport(self) -> Transport:
        """Return a connection to the broker for handmade messages."""
        return connect(BrokerSettings(urls=(self.broker_url,)))

    def sealer(self) -> Sealer:
        """Return a sealer with this deployment's keys."""
        cluster_id = self.database.read(cluster.cluster_id)
        return Sealer(ClusterKeys(SECRET), cluster_id, lambda: time.time_ns() // 1_000_000)

    def publish(self, *messages: Outgoing) -> list[Confirm]:
        """Publish handmade messages, and return their confirms."""
        transport = self.transport()
        try:
            publisher = transport.publisher("by hand")
            eventually(lambda: publisher.is_ready)
            return publisher.publish(messages).wait(30)
        finally:
            transport.close()

    # -- invariants -----------------------------------------------------------------------------

    def assert_sound(self) -> None:
        """Stop all schedules, wait for open runs, and check the invariants."""
        assert_sound(self, seconds=90.0)
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        """Check that runs left no process, and that every process has a live command."""

        def look() -> bool:
            assert not self.processes_of_runs(), f"left by runs: {self.processes_of_runs()}"
            assert not self.strays(), f"without a command: {self.strays()}"
            return True

        eventually(look, every=0.05)

    def processes_of_runs(self, run_id: int | None = None) -> list[Process]:
        """Return the live processes started by one run or any run through exec."""
        wanted = None if run_id is None else str(run_id)
        return [
            process
            for process, environment in self._marked()
            if RUN_MARK in environment and wanted in (None, environment[RUN_MARK])
        ]

    def strays(self) -> list[Process]:
        """Return live processes of commands that are gone."""
        marked = [process for process, _ in self._marked()]
        kept = {command.pid for command in self.running()}
        kept |= {process.pid for pid in list(kept) for process in descendants(pid)}
        return [process for process in marked if process.pid not in kept and process.is_alive]

    def close(self) -> None:
        """Audit on the command line, end every command and check that nothing is left."""
        try:
            self.warren("audit")
        finally:
            self.end(list(self._running))
            self.database.close()

    def _marked(self) -> list[tuple[Process, dict[str, str]]]:
        found = [(process, environment_of(process.pid)) for process in every_process()]
        return [
            (process, environment)
            for process, environment in found
            if environment.get(MARK) == self._mark and process.state not in "ZX"
        ]

    def _run(self, *arguments: str) -> CompletedProcess[str]:
        if self.code is None:
            return run_warren(*arguments, folder=self.folder, env=self.env)
        return first_release.run(self.code, *arguments, folder=self.folder, env=self.env)

    def _start(
        self, *arguments: str, fate: Sequence[str] = (), env: dict[str, str] | None = None
    ) -> Command:
        every = self.env | (env or {})
        if self.code is not None:
            program, call = first_release.PYTHON, ("-m", "warren", *arguments)
            every |= first_release.environment(self.code)
            command = Command(*call, folder=self.folder, env=every, program=program)
        elif fate:
            script = (fault_injection.__file__, *fate)
            program = Path(sys.executable)
            command = Command(*script, *arguments, folder=self.folder, env=every, program=program)
        else:
            command = Command(*arguments, folder=self.folder, env=every, cold=self.cold)
        self._running.append(command)
        return command
