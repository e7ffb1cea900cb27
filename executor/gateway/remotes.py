"""All registered executors: serves those that register and drops those that stay away."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from warren.executor.errors import ExecutorError
from warren.executor.gateway.allow_list import AccessTokens, AllowList, RemoteUrl
from warren.executor.gateway.protocol import BadRequest, NotRecorded, RemoteResult
from warren.executor.gateway.remote import ExecutorFactory, Remote
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.gateway.remote_logs import (
    Note,
    RemoteFolder,
    forget_drained,
    note_drained,
    remembered,
)
from warren.executor.gateway.remote_run import PROOF_SECONDS, RemoteLimits
from warren.executor.gateway.remote_slots import RemoteSlots
from warren.executor.gateway.remote_watch import REGISTERED_SECONDS
from warren.executor.logs.run_logs import RunLogs

#: Most executors served by one gateway; each has four connections to the broker.
REMOTES_LIMIT = 500
#: How long to wait after another gateway had the executor, or it could not be served.
REFUSED_SECONDS = 30.0
#: How long a callback may wait for the journal.
RECORD_SECONDS = 5.0

log = structlog.get_logger()

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """How registered executors are served: where their state is, and what they get."""

    state_dir: Path
    allowed: AllowList
    tokens: AccessTokens
    limits: RemoteLimits
    run_logs: RunLogs
    record_seconds: float = RECORD_SECONDS


class Remotes:
    """The registered executors by app and address. Used from one event loop's thread."""

    def __init__(self, options: RemoteOptions, make_executor: ExecutorFactory) -> None:
        self._options = options
        self._make_executor = make_executor
        self._remotes: dict[_Key, Remote] = {}
        self._starting: set[_Key] = set()
        #: Until when (monotonic seconds) runs of executors that are not served are still awaited.
        self._awaited: dict[_Key, float] = {}
        #: Runs whose results are on their way into a journal, and whose they are.
        self._recording: dict[int, tuple[_Key, asyncio.Future[bool]]] = {}
        #: Until when (monotonic seconds) not to serve those that ended by themselves.
        self._left_alone: dict[_Key, float] = {}
        self._drained: set[_Key] = set()
        self._is_closing = False

    @property
    def is_empty(self) -> bool:
        """Whether none is served."""
        return not self._remotes and not self._starting

    async def restore(self) -> None:
        """Serve those that the last gateway served; they have time to register again.

        One that cannot be served now is logged and left out.
        """
        for app, note in remembered(self._options.state_dir):
            try:
                await self._go_on_with(app, note)
            except Exception as error:  # noqa: BLE001 - no note may keep the gateway from starting
                why = str(error) or repr(error)
                log.warning("remote_refused", app=app, url=note.url, why=why)

    async def register(self, app: str, text: str, appname: str = "") -> None:
        """Note that an executor registered, and serve it if it is new.

        `appname` is what it calls its app, if it is of 3.5.

        Raises:
            BadRequest: it cannot be served now.
            AddressRefused: its URL may not be registered.

        """
        url = self._options.allowed.check(text)
        key = (app, url.address)
        if (remote := self._remotes.get(key)) is not None:
            remote.register(appname)
        elif key not in self._starting and not self._is_left_alone(key, url):
            await self._serve(app, url, appname)

    def sign_off(self, app: str, text: str) -> None:
        """Note that an executor signed off.

        Raises:
            AddressRefused: its URL may not be registered.

        """
        key = (app, self._options.allowed.check(text).address)
        self._left_alone.pop(key, None)
        if key in self._drained:
            self._drained.remove(key)
            forget_drained(self._options.state_dir, *key)
        if (remote := self._remotes.get(key)) is not None:
            remote.sign_off()

    async def call_back(self, apps: Collection[str], results: Iterable[RemoteResult]) -> None:
        """End runs of these apps, and return once that is in the journals.

        Results of unknown runs are ignored, unless the next gateway may know the run.

        Raises:
            NotRecorded: the executor must repeat the call; what was recorded counts once.

        """
        recorded = [self._call_back(apps, result) for result in results]
        if not recorded:
            return
        done, pending = await asyncio.wait(recorded, timeout=self._options.record_seconds)
        if pending or not all(each.result() for each in done):
            raise NotRecorded("not every result could be recorded, call back again")

    def run_round(self) -> None:
        """Drop those that have ended."""
        for key, remote in list(self._remotes.items()):
            if remote.is_over:
                del self._remotes[key]
                self._settle(key, remote)

    def close(self, *, hurry: bool) -> None:
        """Begin to shut all of them down, and accept no more."""
        self._is_closing = True
        for remote in self._remotes.values():
            remote.stop(hurry=hurry)

    async def _serve(self, app: str, url: RemoteUrl, appname: str) -> None:
        if self._is_closing:
            raise BadRequest("the gateway is shutting down")
        if len(self._remotes) + len(self._starting) >= REMOTES_LIMIT:
            raise BadRequest(f"{REMOTES_LIMIT} executors are registered already")
        try:
            await self._begin(app, url, appname)
        except (ExecutorError, OSError) as error:
            self._left_alone[app, url.address] = time.monotonic() + REFUSED_SECONDS
            log.warning("remote_refused", app=app, url=url.text, why=str(error))
            raise BadRequest(str(error)) from error

    async def _go_on_with(self, app: str, note: Note) -> None:
        if app not in self._options.tokens.by_app:
            raise BadRequest(f"no token is listed for app {app}")
        url = self._options.allowed.check(note.url)
        if note.drained_until:
            # The clock may have been set back meanwhile.
            seconds = min(note.drained_until - time.time(), REGISTERED_SECONDS)
            if seconds > 0:
                self._leave_alone((app, url.address), url, seconds)
            else:
                forget_drained(self._options.state_dir, app, url.address)
            return
        if note.boot_id:
            self._await((app, url.address))
        await self._begin(app, url, note.appname)

    async def _begin(self, app: str, url: RemoteUrl, appname: str) -> None:
        key = (app, url.address)
        self._starting.add(key)
        try:
            remote = await asyncio.to_thread(self._start, app, url, appname)
        finally:
            self._starting.discard(key)
        self._remotes[key] = remote
        self._awaited.pop(key, None)
        log.info("remote_registered", app=app, url=url.text, address=url.address)
        if self._is_closing:
            remote.stop(hurry=False)

    def _start(self, app: str, url: RemoteUrl, appname: str) -> Remote:
        options = self._options
        folder = RemoteFolder(options.state_dir, app, url.address)
        client = RemoteClient(url, options.tokens.by_app[app], options.allowed)
        client.appname = appname
        slots = partial(RemoteSlots, limits=options.limits, run_logs=options.run_logs)
        with contextlib.ExitStack() as held:
            held.callback(folder.state.release)
            remote = Remote(app, client, folder, slots=slots, make_executor=self._make_executor)
            held.pop_all()  # from here on the executor releases it
        remote.start()
        return remote

    def _call_back(self, apps: Collection[str], result: RemoteResult) -> "asyncio.Future[bool]":
        """Return whether a result is recorded or may be ignored.

        A result that is repeated before the first is recorded waits for that one: the run has
        ended, but a crash would bring it back.
        """
        under_way = self._recording.get(result.run_id)
        if under_way is not None and under_way[0][0] in apps:
            return under_way[1]
        loop = asyncio.get_running_loop()
        recorded: asyncio.Future[bool] = loop.create_future()

        def note() -> None:
            if not recorded.done():
                recorded.set_result(True)

        def note_safely() -> None:
            with contextlib.suppress(RuntimeError):  # the gateway has ended
                loop.call_soon_threadsafe(note)

        key = self._holder_of(apps, result.run_id)
        if key is not None:
            if self._remotes[key].call_back(result, note_safely):
                self._recording[result.run_id] = key, recorded
                recorded.add_done_callback(lambda _: self._recording.pop(result.run_id, None))
            else:
                recorded.set_result(False)
        elif self._may_be_held_later(apps):
            recorded.set_result(False)
        else:
            log.info("remote_callback_ignored", run_id=result.run_id, code=result.code)
            recorded.set_result(True)
        return recorded

    def _may_be_held_later(self, apps: Collection[str]) -> bool:
        """Whether an executor that will be served, or the next gateway, may know their runs."""
        now = time.monotonic()
        awaited = {key for key, until in self._awaited.items() if until > now}
        return self._is_closing or any(app in apps for app, _ in awaited | self._starting)

    def _await(self, key: _Key) -> None:
        """Note that runs of an executor were left behind; after so long they are LOST."""
        self._awaited[key] = time.monotonic() + PROOF_SECONDS

    def _holder_of(self, apps: Collection[str], run_id: int) -> _Key | None:
        holders = (
            key
            for key, remote in self._remotes.items()
            if key[0] in apps and remote.has_run(run_id)
        )
        return next(holders, None)

    def _settle(self, key: _Key, remote: Remote) -> None:
        for run_id in [run_id for run_id, (whose, _) in self._recording.items() if whose == key]:
            del self._recording[run_id]
        if remote.has_left_runs:
            self._await(key)
        try:
            remote.settle()
        except OSError as error:  # at worst, the next start serves it needlessly
            log.warning("remote_note_failed", app=key[0], address=key[1], error=str(error))
        executor = remote.executor
        if executor.was_drained and not remote.has_left_runs:
            if seconds := remote.drained_seconds:
                self._leave_alone(key, remote.url, seconds)
        elif executor.was_drained or executor.failure:
            self._left_alone[key] = time.monotonic() + REFUSED_SECONDS
        log.info("remote_dropped", app=key[0], address=key[1])

    def _leave_alone(self, key: _Key, url: RemoteUrl, seconds: float) -> None:
        """Do not serve a drained one for a while, nor let the next gateway do so."""
        self._drained.add(key)
        self._left_alone[key] = time.monotonic() + seconds
        note = Note(url.text, drained_until=time.time() + seconds)
        try:
            note_drained(self._options.state_dir, *key, note)
        except OSError as error:
            log.warning("remote_note_failed", app=key[0], address=key[1], error=str(error))

    def _is_left_alone(self, key: _Key, url: RemoteUrl) -> bool:
        """Whether it is too early to serve one; a drained one must be away for a while first."""
        now = time.monotonic()
        is_early = self._left_alone.get(key, now) > now
        if is_early and key in self._drained:
            self._leave_alone(key, url, REGISTERED_SECONDS)
        if not is_early:
            self._left_alone.pop(key, None)
            self._drained.discard(key)
        return is_early
