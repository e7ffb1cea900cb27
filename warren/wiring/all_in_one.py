"""`warren up`: everything in one process with one SQLite file; `--reload` watches the handlers.

start:  executors ─> scheduler (welcomes them) ─> console, API ─> job file
end:    API, console ─> executors (runs get SIGTERM, 2 s, SIGKILL; results are reported)
        ─> scheduler, once no run is in flight any more ─> database
"""

import contextlib
import errno
import importlib.util
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from warren.admin_web.serving.web_process import WebProcess
from warren.broker.messages import Finished, NotStarted
from warren.errors import CommandError
from warren.executor.processes.interface import SlotEvents, SlotsFactory
from warren.local_client import client_on
from warren.resources.operation import Scope
from warren.scheduler.commands.account_commands import MAX_DAYS, TokenSpec
from warren.scheduler.commands.token_text import hash_of, is_token
from warren.scheduler.node import SchedulerNode
from warren.scheduler.problems import counted
from warren.settings.settings import HOME, Settings
from warren.sql.accounts import tokens, users
from warren.sql.accounts.users import Role
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS
from warren.sql.listings import recent, run_messages
from warren.terminal.output import Screen, coloured, visible
from warren.terminal.run_lines import job_name
from warren.wiring.console import CONSOLE_POOL, make_console
from warren.wiring.executor import make_log_cleaner, make_run_logs, make_slots
from warren.wiring.one_process import OneProcess
from warren.wiring.processes import Signals
from warren.wiring.web import (
    API_POOL,
    api_url,
    console_url,
    make_api,
)

#: Lines printed at a time; further runs are only counted.
LINES = 10
_MESSAGE_COLUMNS = 100
Process = TypeVar("Process", bound=WebProcess)
#: How many ports to try from the default one on, so that one machine can run several `warren up`.
NEXT_PORTS = 20
#: The file with an administrator's token, readable only by the user who runs `warren up`.
TOKEN_FILE = HOME / "api-token"
#: Seconds to wait for executors to be welcomed before the summary is printed anyway.
WELCOME_SECONDS = 10.0
#: Seconds that a stopped executor may take; its own timeouts are shorter.
EXECUTOR_SECONDS = 4.0
#: Seconds that the scheduler may take to store the executors' last reports.
SETTLING_SECONDS = 1.0
_POLL_SECONDS = 0.02
#: Seconds between two polls where watchfiles, which uses kernel events, is not installed.
POLL_SECONDS = 0.1
#: Most files that are looked at each time.
MAX_FILES = 5_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


class FinishedRuns:
    """Collects ended runs in the executors' threads; another thread prints them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ended: queue.SimpleQueue[Finished] = queue.SimpleQueue()

    def watch(self, make_slots: SlotsFactory) -> SlotsFactory:
        """Return a factory whose slots also report each ended run here."""

        def make(*, events: SlotEvents, **others: Any) -> Any:
            def report(end: Finished | NotStarted, on_recorded: Callable[[], None] | None) -> None:
                events.finished(end, on_recorded)
                if isinstance(end, Finished):
                    self._ended.put(end)

            return make_slots(events=replace(events, finished=report), **others)

        return make

    def show(self) -> None:
        """Print the runs that have ended since the last call."""
        ended = self._take()
        if not ended:
            return
        shown = ended[:LINES]
        ids = [finished.run_id for finished in shown]
        rows = self._database.read(lambda session: run_messages.by_ids(session, ids))
        names = {row.id: f"{row.app}/{job_name(row.job, row.job_id)}" for row in rows}
        for finished in shown:
            print(_line(finished, names.get(finished.run_id, "?")), flush=True)
        if len(ended) > LINES:
            print(f"          … and {counted(len(ended) - LINES, 'more run')}", flush=True)

    def _take(self) -> list[Finished]:
        ended = []
        while not self._ended.empty():
            ended.append(self._ended.get())
        return ended


def _line(finished: Finished, name: str) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(finished.finished_at_ms / 1000))
    outcome = coloured(finished.outcome, finished.outcome.ljust(9), Screen.current())
    took = ""
    if finished.started_at_ms:
        took = f"{max(finished.finished_at_ms - finished.started_at_ms, 0) / 1000:.2f} s"
    message = visible(finished.message.strip().partition("\n")[0])[:_MESSAGE_COLUMNS]
    return f"{at}  {outcome}  run {finished.run_id}  {visible(name)}  {took}  {message}".rstrip()


class WebSite:
    """A console and an API in the same process as a scheduler.

    `parts` makes theirs, and has the settings that say where they listen.
    """

    def __init__(self, parts: OneProcess) -> None:
        self._parts = parts
        self._held = ExitStack()
        #: The console's URL, and a shell command that lists the jobs by the API; empty until they
        #: are started, and the latter also if there is no administrator.
        self.address = self.call = ""
        #: The first administrator's password, if that user was just created.
        self.password: str | None = None

    def start(self) -> None:
        """Start serving.

        Raises:
            CommandError: a port is taken.

        """
        settings = self._parts.settings
        parts = self._held.enter_context(self._parts.web_parts(CONSOLE_POOL))
        console = on_free_port(
            lambda port: make_console(parts, port),
            host=settings.host,
            port=settings.port,
            is_fixed="port" in settings.was_set,
            how_to_set="--port or WARREN_PORT",
        )
        self._held.callback(console.stop)
        console.start()
        self.password, self.address = console.password, console_url(settings, console.port)
        # After the console, which creates the first administrator, the owner of the API's token.
        self._start_api()

    def _start_api(self) -> None:
        settings = self._parts.settings
        parts = self._held.enter_context(self._parts.web_parts(API_POOL))
        is_fixed = "api_port" in settings.was_set
        # A console on any free port means that the API may have any, too.
        is_any = settings.port == 0 and not is_fixed
        api = on_free_port(
            lambda port: make_api(parts, port, self.address),
            host=settings.api_host,
            port=0 if is_any else settings.api_port,
            is_fixed=is_fixed or is_any,
            how_to_set="WARREN_API_PORT",
        )
        self._held.callback(api.stop)
        api.start()
        if keep_token(parts.database, settings, TOKEN_FILE):
            header = f"Authorization: Bearer $(cat {TOKEN_FILE})"
            self.call = f'curl -H "{header}" {api_url(settings, api.port)}/jobs'

    def stop(self) -> None:
        """Stop serving, the API first, and close all connections."""
        self._held.close()


def on_free_port(
    make: Callable[[int], Process], *, host: str, port: int, is_fixed: bool, how_to_set: str
) -> Process:
    """Return a process on this port, or on the first free one after it unless it `is_fixed`.

    `make` returns the process for a port, or raises OSError. Messages name the option
    `how_to_set`.

    Raises:
        CommandError: the ports are taken, or the host is not an address of this machine.

    """
    for candidate in range(port, port + 1 if is_fixed else port + NEXT_PORTS):
        try:
            return make(candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CommandError(f"cannot listen at {host}: {error}") from error
    raise CommandError(f"port {port} is taken; choose another with {how_to_set}")


def keep_token(database: Database, settings: Settings, path: Path) -> bool:
    """Make sure that a file has a valid token of an administrator.

    Return False if there is no administrator.
    """
    if _is_valid(database, path):
        return True
    owner = next(
        (
            user
            for user in database.read(users.listing)
            if user.role == Role.ADMINISTRATOR and not user.is_disabled
        ),
        None,
    )
    if owner is None:
        return False
    spec = TokenSpec(
        name=f"up-{secrets.token_hex(4)}", owner_id=owner.id, scopes=tuple(Scope), days=MAX_DAYS
    )
    text = client_on(database, settings).commands.tokens.add(spec)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(f"{text}\n")
    return True


def _is_valid(database: Database, path: Path) -> bool:
    """Return whether a file has a token that is valid for at least another day."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
    known = database.read(lambda s: tokens.find(s, hash_of(text))) if is_token(text) else None
    if known is None:
        return False
    token, owner = known
    is_fresh = token.expires_at > time.time_ns() // 1_000_000 + DAY_MS
    return token.revoked_at is None and is_fresh and not owner.is_disabled


class AllInOne(OneProcess):
    """All parts of one `warren up`; `close` stops whatever `start` has started."""

    def __init__(self, settings: Settings, database: Database, secret: str) -> None:
        super().__init__(settings, database, secret)
        self._scheduler: SchedulerNode | None = None
        self._cleaner = make_log_cleaner(settings)
        self.web = WebSite(self)
        self.finished = FinishedRuns(database)

    def start(
        self,
        signals: Signals,
        *,
        app: str,
        count: int,
        sources: Sequence[str],
        is_reloaded: bool = False,
    ) -> None:
        """Start `count` executors of an app, then the scheduler, the console and the API.

        `is_reloaded`: `reload` may be called.

        Raises:
            HandlersError: the handlers cannot be loaded, or a signal arrived meanwhile.
            CommandError: a port is taken.

        """
        run_logs = make_run_logs(self.settings)
        slots = self.finished.watch(
            make_slots(self.settings, sources, run_logs, signals=signals, is_reloaded=is_reloaded)
        )
        for number in range(1, count + 1):
            self.start_executor(app, number, slots)
        self._scheduler = self.make_scheduler()
        self._scheduler.start()
        self._cleaner.start()
        self.web.start()

    def wait_until_welcome(self, signals: Signals) -> None:
        """Wait until every executor is registered, up to WELCOME_SECONDS, or until a signal."""
        deadline = time.monotonic() + WELCOME_SECONDS
        while not signals.wait(_POLL_SECONDS * 5) and time.monotonic() < deadline:
            if self.are_welcome():
                return

    def reload(self, then: Callable[[str], None]) -> None:
        """Reload the handlers in every executor; see `Executor.reload`."""
        for executor in self.executors:
            executor.reload(then)

    def close(self, signals: Signals) -> None:
        """Stop everything in order; a further signal hurries the executors."""
        self.web.stop()
        for executor in self.executors:
            executor.stop()
        self._wait_for_executors(signals)
        if self._scheduler is not None:
            self._wait_for_open_runs()
            self._scheduler.stop()
        self._cleaner.stop()

    def _wait_for_executors(self, signals: Signals) -> None:
        last_count = signals.count
        deadline = time.monotonic() + EXECUTOR_SECONDS
        while not all(executor.join(0) for executor in self.executors):
            signals.wait(_POLL_SECONDS)
            if signals.count > last_count or time.monotonic() > deadline:
                last_count, deadline = signals.count, time.monotonic() + EXECUTOR_SECONDS
                for executor in self.executors:
                    executor.stop(hurry=True)

    def _wait_for_open_runs(self) -> None:
        deadline = time.monotonic() + SETTLING_SECONDS
        with contextlib.suppress(Exception):
            while self.database.read(recent.count_in_flight) and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)


class Reloading:
    """Reloads the executors of one `warren up` whenever their handlers are saved."""

    def __init__(self, platform: AllInOne, sources: Sequence[str]) -> None:
        self._platform = platform
        self._watch = SourceWatch(watched_folders(sources), self._reload)
        self._lock = threading.Lock()
        self._told: str | None = None

    def start(self) -> None:
        """Start watching the handlers."""
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    def _reload(self) -> None:
        with self._lock:
            self._told = None
        self._platform.reload(self._tell)

    def _tell(self, why: str) -> None:
        """Print one line for all executors; they import the same code."""
        with self._lock:
            if self._told == why:
                return
            self._told = why
        words = f"not reloaded, the old code stays in use: {why}" if why else "handlers reloaded"
        print(words, flush=True)


def watched_folders(sources: Sequence[str]) -> list[Path]:
    """Return the folders whose Python files count: those of files, and the packages of modules."""
    folders = set()
    for source in sources:
        path = Path(source)
        if path.suffix == ".py":
            folders.add(path.absolute().parent)
        else:
            top = Path(source.partition(".")[0]).absolute()
            folders.add(top if top.is_dir() else Path.cwd())
    return sorted(folders)


class SourceWatch:
    """A thread that calls `on_change` after Python files in these folders have changed."""

    def __init__(self, folders: Sequence[Path], on_change: Callable[[], None]) -> None:
        self._folders = folders
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source watch", daemon=True)
        self._seen = _stamps(folders)

    def start(self) -> None:
        """Start watching; what was saved since the watch was made counts too."""
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        if importlib.util.find_spec("watchfiles") is None:
            self._poll()
        else:
            self._listen()

    def _poll(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._look()

    def _listen(self) -> None:
        from watchfiles import PythonFilter, watch  # noqa: PLC0415 - an extra

        self._look()
        for _ in watch(
            *self._folders,
            watch_filter=PythonFilter(),
            debounce=100,
            step=20,
            stop_event=self._stopping,
            raise_interrupt=False,
        ):
            self._look()

    def _look(self) -> None:
        stamps = _stamps(self._folders)
        if stamps != self._seen:
            self._seen = stamps
            self._on_change()


def _stamps(folders: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """Return when each file was last changed, and how long it is."""
    stamps = {}
    for path in _files(folders):
        try:
            status = path.stat()
        except OSError:
            continue  # it is being replaced
        stamps[path] = (status.st_mtime_ns, status.st_size)
        if len(stamps) == MAX_FILES:
            break
    return stamps


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    left = list(folders)
    while left:
        folder = left.pop(0)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.suffix == ".py":
                yield entry
            elif entry.is_dir() and entry.name not in _SKIPPED and not entry.name.startswith("."):
                left.append(entry)
