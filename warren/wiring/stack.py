"""A whole Warren in a test's process: scheduler, executors, API, on SQLite and a broker in memory.

    start:  database ─> job files ─┬─> executors ──────────────────┬─> welcomed
                                   └─> scheduler ─> API ───────────┘
    end:    executors, then the rest in reverse

Schedules do not fire: a test triggers what it wants to see.
"""

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Self

import structlog

from warren.client import Client, RunFailed
from warren.client.calls import Instant, Span
from warren.errors import CommandError
from warren.jobfile.apply import DEFAULT_APP
from warren.jobfile.declared import declared_in
from warren.jobfile.reader import JobFile, read_job_files
from warren.jobfile.sources import NO_VALUES, GivenValues, Source, read_sources
from warren.local_client import client_on
from warren.logs import BoundedFile, configure_events
from warren.resources.operation import Scope
from warren.resources.runs import EndedRun
from warren.route_plugins import route_names
from warren.scheduler.commands.account_commands import TokenSpec
from warren.scheduler.jobs.spec import JobSpec
from warren.settings.settings import Settings
from warren.sql.accounts.users import Rights, Role
from warren.sql.dialects.url_forms import file_url
from warren.sql.engine import Database
from warren.sql.registry import apps
from warren.sql.schema.fresh import make_schema
from warren.wiring.executor import make_run_logs, make_slots
from warren.wiring.one_process import OneProcess
from warren.wiring.processes import Signals
from warren.wiring.web import API_POOL, make_api

#: How long executors may take to import their handlers and be welcomed.
READY_SECONDS = 60.0
_POLL_SECONDS = 0.01
#: Requests and triggers per second; high enough that no test reaches the limits by chance.
_MANY = 100_000.0
#: The pytest setting that values come from.
VALUES_INI = "warren_values"
#: Of each executor.
SLOTS = 4
#: At the end, running jobs get SIGTERM at once and SIGKILL after this many seconds.
GRACE_SECONDS = 1.0
_CLOSE_SECONDS = 10.0


class _NoSignals(Signals):
    """Ignores signals: a test's stack ends with its session."""

    def __init__(self) -> None:
        self.count = 0


@dataclass(frozen=True, slots=True)
class Triggered:
    """A run that a test has asked for."""

    id: int
    _client: Client

    def wait(self, timeout: float = 60.0) -> EndedRun:
        """Return the run once it has ended, with its retries and shards, however it ended.

        Raises:
            TimeoutError: it has not ended after `timeout` seconds.

        """
        try:
            return self._client.wait(self.id, timeout=timeout)
        except RunFailed as failed:
            return failed.run


class Stack:
    """The running parts; `client` calls the API as an administrator.

    `api_url` and `api_token` are for programs of the user's that call the API themselves.

    Args:
        folder: where the database, logs and state are kept.
        handlers: modules or files; every executor has all of them.
        jobs: job files. Their jobs, and those that the handlers declare, are stopped, so that they
            run only when they are triggered.
        values: those of `${NAME}` in the job files, as `NAME=VALUE`.

    """

    def __init__(
        self,
        folder: Path,
        *,
        handlers: Sequence[str] = (),
        jobs: Sequence[Path] = (),
        values: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._sources = list(handlers)
        self._files = list(jobs)
        self._values = GivenValues(
            texts=values, option=VALUES_INI, ways=f"{VALUES_INI}, {{name}}=…"
        )
        self._held = ExitStack()
        self._settings = Settings(
            log_dir=folder / "logs",
            state_dir=folder / "state",
            slots=SLOTS,
            grace_seconds=GRACE_SECONDS,
            drain_seconds=0.0,
            cpu_limit=100.0,
            memory_limit=100.0,
            api_port=0,
            api_rate=_MANY,
            api_trigger_rate=_MANY,
        )
        self._parts: OneProcess
        self.client: Client
        self.api_url = self.api_token = ""

    def __enter__(self) -> Self:
        """Start everything, and return once jobs can run."""
        try:
            self._start()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop everything, and end all job processes."""
        self._held.close()

    def trigger(
        self,
        job: str,
        param: str | None = None,
        *,
        params: object = None,
        at: Instant | None = None,
        after: Span | None = None,
        late: bool = False,
        addresses: Sequence[str] = (),
        run_date: date | str | None = None,
        key: str | None = None,
    ) -> Triggered:
        """Run a job, named APP/NAME, or NAME if only one app has such a job; see `Client.trigger`.

        Raises:
            LookupError: there is no such job, or several apps have one.

        """
        names = [f"{job.app}/{job.name}" for job in self.client.jobs()]
        matching = [name for name in names if job in (name, name.partition("/")[2])]
        if len(matching) != 1:
            known = ", ".join(matching or names)
            raise LookupError(f"expected job to be that of one app, got: {job!r}; known: {known}")
        run = self.client.trigger(
            matching[0],
            param,
            params=params,
            at=at,
            after=after,
            late=late,
            addresses=addresses,
            run_date=run_date,
            key=key,
        )
        return Triggered(run.id, self.client)

    def _start(self) -> None:
        if not structlog.is_configured():
            self._held.callback(structlog.reset_defaults)
            configure_events("info", BoundedFile(self._folder / "warren.log"), for_good=False)
        database = Database(file_url(self._folder / "warren.db"))
        self._held.callback(database.close)
        self._parts = OneProcess(self._settings, database, secrets.token_urlsafe(32))
        file = _read(read_sources(self._files), self._values)
        # Handlers are imported by processes of their own, first to see what they declare, then by
        # the executors: meanwhile this one gets on with the rest.
        with ThreadPoolExecutor(1) as beside:
            declaring = beside.submit(self._declared, _first_app(file))
            make_schema(database)
            names = self._apply(database, file, declaring.result())
            scheduler = self._parts.make_scheduler()
            # Executors stop first: their last reports must still be received.
            self._held.callback(scheduler.stop)
            self._held.callback(self._stop_executors)
            starting = beside.submit(self._start_executors, names)
            scheduler.start()
            self._start_api()
            starting.result()
        self._wait_until_welcome()

    def _apply(self, database: Database, file: JobFile, declared: Sequence[JobSpec]) -> list[str]:
        """Apply the job files and what the handlers declare; return the names of all apps."""
        specs = [replace(spec, enabled=False) for spec in file.specs]
        named = [*_apps(file), *(spec.app for spec in declared)]
        names = list(dict.fromkeys(named)) or [DEFAULT_APP]
        for name in names:
            database.write(lambda session, name=name: apps.ensure(session, name))  # type: ignore[misc]
        files_of = client_on(database, self._settings).commands.job_files
        files_of.apply(
            file.apps,
            [*specs, *declared],
            limits=file.limits,
            calendars=file.calendars,
            dry_run=False,
            prune=False,
        )
        return names

    def _declared(self, app: str) -> list[JobSpec]:
        """Return the jobs that the handlers declare; `app` is that of those that name none."""
        declared = declared_in(self._sources, app=app) if self._sources else None
        if declared is None or not declared.jobs:
            return []
        return [replace(spec, enabled=False) for spec in _read([declared.job_file()]).specs]

    def _start_executors(self, apps: Sequence[str]) -> None:
        for app in apps:
            settings = replace(self._settings, state_dir=self._settings.state_dir / app)
            slots = make_slots(
                settings, self._sources, make_run_logs(settings), signals=_NoSignals()
            )
            self._parts.start_executor(app, 1, slots, settings)

    def _stop_executors(self) -> None:
        for executor in self._parts.executors:
            executor.stop(hurry=True)
        for executor in self._parts.executors:
            executor.join(_CLOSE_SECONDS)

    def _start_api(self) -> None:
        api = make_api(self._held.enter_context(self._parts.web_parts(API_POOL)), 0)
        self._held.callback(api.stop)
        api.start()
        commands = client_on(self._parts.database, self._settings).commands
        everything = Rights(role=Role.ADMINISTRATOR, may_edit_glue=True)
        owner = commands.users.add("tests", None, everything)
        token = commands.tokens.add(TokenSpec(name="tests", owner_id=owner, scopes=list(Scope)))
        self.api_url, self.api_token = f"http://127.0.0.1:{api.port}", token
        self.client = self._held.enter_context(Client(self.api_url, token))

    def _wait_until_welcome(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._parts.are_welcome():
            if failure := self._parts.failure:
                raise CommandError(failure)
            if time.monotonic() > deadline:
                raise CommandError(f"expected executors to be ready within {READY_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)


def _apps(file: JobFile) -> list[str]:
    """Return the apps that a job file names; some may come again."""
    return [*(app.name for app in file.apps), *(spec.app for spec in file.specs)]


def _first_app(file: JobFile) -> str:
    return next(iter(_apps(file)), DEFAULT_APP)


def _read(sources: Sequence[Source], values: GivenValues = NO_VALUES) -> JobFile:
    now_ms = time.time_ns() // 1_000_000
    return read_job_files(sources, values, now_ms=now_ms, added_routes=route_names())
