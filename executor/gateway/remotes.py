"""All registered executors: serves those that register and drops those that stay away.

Each is a Warren executor whose slots are at the registered URL. The results that they report are
brought to the runs they belong to, and into their journals.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog

from warren.executor.agent import Executor
from warren.executor.errors import ExecutorError
from warren.executor.gateway.allow_list import AccessTokens, AllowList, NotListed, RemoteUrl
from warren.executor.gateway.peers import Handover, Peers, Signatures
from warren.executor.gateway.protocol import BadRequest, NotRecorded, RemoteResult
from warren.executor.gateway.refused_addresses import RefusedAddresses
from warren.executor.gateway.remote_client import RemoteClient
from warren.executor.gateway.remote_logs import (
    Note,
    RemoteFolder,
    forget_drained,
    note_drained,
    remembered,
)
from warren.executor.gateway.remote_slots import REGISTERED_SECONDS, RemoteLimits, RemoteSlots
from warren.executor.messaging.outbox import new_boot_id
from warren.executor.processes.interface import SlotsFactory
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import StateFolder

#: An app and an address.
Key = tuple[str, str]
#: How long a callback may wait for the journal.
RECORD_SECONDS = 5.0
#: For how long to refuse a result whose run is unknown, so that other gateways are asked.
OFFERED_SECONDS = 300.0
#: The most unknown runs of which it is remembered since when their results are offered.
OFFERED_LIMIT = 100_000
log = structlog.get_logger()
#: The most executors that one gateway serves; each has four connections to the broker.
REMOTES_LIMIT = 500
#: How long the journal of a gateway that is back may take into one's own; how often, and after how
#: long, it is offered: for as long as the other one waits for it. During the first offers, no
#: gateway begins to serve its executor.
ADOPTION_SECONDS = 10.0
BEQUESTS, BEQUEST_SECONDS = 24, 5.0
HELD_BEQUESTS = 3
#: Seconds until one is tried again that another gateway has, or that could not be served; each
#: time twice as long, up to the second figure. A dead gateway's executors are free after 15 s.
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 5.0, 60.0


class ExecutorFactory(Protocol):
    """Creates executors that are not started yet."""

    def __call__(
        self, *, app: str, address: str, slots: SlotsFactory, folder: StateFolder, boot_id: str
    ) -> Executor:
        """Return one for this boot, with this state folder, which is locked already."""


class Remote:
    """Serves one registered executor from `start` until `is_over`.

    Raises OSError if its boot cannot be noted; the caller still holds the folder.
    """

    def __init__(
        self,
        app: str,
        client: RemoteClient,
        folder: RemoteFolder,
        *,
        slots: "partial[RemoteSlots]",
        make_executor: ExecutorFactory,
    ) -> None:
        self._client = client
        self._folder = folder
        self._make_slots = slots
        self._slots: RemoteSlots
        self._is_draining = False
        self._registered_until = time.monotonic() + REGISTERED_SECONDS
        self._has_come_back = False
        self._boot_id = folder.boot_id_of(client.url.text) or new_boot_id()
        folder.save(self._note(client.appname))
        self.executor = make_executor(
            app=app,
            address=client.url.address,
            slots=self._keep_slots,
            folder=folder.state,
            boot_id=self._boot_id,
        )

    def start(self) -> None:
        """Start serving it; raises as `Executor.start` does."""
        self.executor.start()

    def stop(self, *, hurry: bool) -> None:
        """Begin to shut down; the next start continues its runs."""
        self.executor.stop(hurry=hurry)

    def register(self, appname: str) -> None:
        """Record that it registered, as an executor of 3.5 if there is an `appname`.

        Raises:
            OSError: its version changed, and that could not be saved.

        """
        now = time.monotonic()
        if self.executor.was_drained and now > self._registered_until:
            self._has_come_back = True
        self._registered_until = now + REGISTERED_SECONDS
        if appname != self._client.appname:
            self._folder.save(self._note(appname))
            self._client.appname = appname
        self._slots.post(self._slots.register)

    def sign_off(self) -> None:
        self._registered_until = 0.0
        self._slots.post(self._slots.sign_off)

    @property
    def registered_seconds(self) -> float:
        """For how long its last registration still counts; 0 if it has signed off."""
        return max(0.0, self._registered_until - time.monotonic())

    @property
    def drained_seconds(self) -> float:
        """For how long a drained one is not served; 0 if it has left since."""
        return 0.0 if self._has_come_back else self.registered_seconds

    def has_run(self, run_id: int) -> bool:
        """Whether this run is in one of its slots."""
        return self._slots.has_run(run_id)

    def has_ended(self, run_id: int) -> bool:
        """Whether it had this run, which has ended."""
        return self._slots.has_ended(run_id)

    def call_back(self, result: RemoteResult, on_recorded: Callable[[], None]) -> bool:
        """End a run; `on_recorded` is called from another thread. Return False if it has ended."""
        return self._slots.post(self._slots.call_back, result, on_recorded)

    @property
    def url(self) -> RemoteUrl:
        return self._client.url

    @property
    def appname(self) -> str:
        """Its own name for its app, if it is of 3.5."""
        return self._client.appname

    @property
    def is_over(self) -> bool:
        """Whether it has ended. One that left permanently starts to drain once all is reported."""
        if not self._is_draining and self._slots.is_unneeded and self.executor.is_settled:
            self._is_draining = True
            self.executor.drain()
        return not self.executor.is_alive

    @property
    def has_left_runs(self) -> bool:
        """Whether one that has ended left runs or reports, which the next start continues."""
        executor = self.executor
        # One that was never welcomed is not clean, but has nothing to leave behind either.
        return not (executor.was_clean or executor.is_settled or executor.was_refused)

    @property
    def is_done_with(self) -> bool:
        """Whether one that has ended need not be continued."""
        executor = self.executor
        is_gone = self._is_draining or executor.was_drained or executor.was_refused
        return is_gone and not self.has_left_runs

    @property
    def bequest(self) -> tuple[Note, bytes]:
        """What another gateway needs to continue one that has ended; raises OSError."""
        if self.executor.was_clean:
            return Note(self._client.url.text, self._client.appname), b""
        return self.past

    @property
    def past(self) -> tuple[Note, bytes]:
        """Its note and journal, whatever it left; raises OSError."""
        return self._note(self._client.appname), self._folder.state.journal_path.read_bytes()

    def bequeath(self) -> None:
        """Leave one that has ended to another gateway; the next start here does not continue it.

        Two that continue the same boot could start a run twice.
        """
        self._folder.forget()

    def take_back(self) -> None:
        """Have the next start here continue one that no other gateway continues."""
        self._folder.save(self.bequest[0])

    def discard(self) -> None:
        """Delete the journal of one that another gateway continues."""
        self._folder.discard()

    async def adopt(self, journal: bytes) -> None:
        """Go on with what another gateway left; return once that is in the journal here.

        Raises:
            BadRequest: it cannot be, or not in time.

        """
        loop = asyncio.get_running_loop()
        told: asyncio.Queue[str] = asyncio.Queue()

        def tell(why: str) -> None:
            with contextlib.suppress(RuntimeError):  # the gateway has ended
                loop.call_soon_threadsafe(told.put_nowait, why)

        self.executor.adopt(journal, tell)
        try:
            why = await asyncio.wait_for(told.get(), ADOPTION_SECONDS)
        except TimeoutError:
            why = "it could not be recorded in time"
        if why:
            raise BadRequest(why)

    def settle(self) -> None:
        """Save what the next start must know about one that has ended.

        If it left runs or reports behind, the next start continues them as the same boot.
        """
        executor = self.executor
        if self.is_done_with:
            # In this order: without its journal, the same boot could start a run twice.
            self._folder.forget()
            if executor.was_clean or executor.is_settled:  # a refused one may have reports
                self._folder.discard()
        elif executor.was_clean:
            self._folder.save(Note(self._client.url.text, self._client.appname))

    def _note(self, appname: str) -> Note:
        return Note(self._client.url.text, appname, self._boot_id)

    def _keep_slots(self, **events: Any) -> RemoteSlots:
        self._slots = self._make_slots(self._client, **events)
        return self._slots


class Callbacks:
    """Records results of the runs that these executors have. Used from one event loop."""

    def __init__(self, remotes: Mapping[Key, Remote], record_seconds: float) -> None:
        self._remotes = remotes
        self._record_seconds = record_seconds
        #: Runs whose results are on their way into a journal, and the executors that have the runs.
        self._recording: dict[int, tuple[Key, asyncio.Future[bool]]] = {}
        #: Since when (monotonic seconds) results of unknown runs are offered, oldest first.
        self._offered: dict[int, float] = {}

    async def record(
        self, apps: Collection[str], results: Sequence[RemoteResult]
    ) -> tuple[list[RemoteResult], bool]:
        """End runs of these apps; return the results of unknown runs once the others are recorded.

        Also return whether those all were. Results of runs that have ended are ignored.
        """
        unknown = []
        recorded = []
        for result in results:
            if (future := self._record(apps, result)) is not None:
                recorded.append(future)
            elif not self._has_ended(apps, result):
                unknown.append(result)
        if not recorded:
            return unknown, True
        done, pending = await asyncio.wait(recorded, timeout=self._record_seconds)
        return unknown, not pending and all(each.result() for each in done)

    def is_given_up(self, result: RemoteResult) -> bool:
        """Whether the result of an unknown run was offered so long that no gateway has the run."""
        now = time.monotonic()
        since = self._offered.setdefault(result.run_id, now)
        if now - since < OFFERED_SECONDS:
            if len(self._offered) > OFFERED_LIMIT:
                del self._offered[next(iter(self._offered))]
            return False
        log.warning("remote_callback_dropped", run_id=result.run_id, code=result.code)
        return True

    def forget(self, key: Key) -> None:
        """Stop waiting for the journal of an executor that has ended."""
        for run_id in [run_id for run_id, (whose, _) in self._recording.items() if whose == key]:
            del self._recording[run_id]

    def _record(self, apps: Collection[str], result: RemoteResult) -> "asyncio.Future[bool] | None":
        """Return whether a result will have been recorded; None if no executor here has its run.

        A result that is repeated before the first is recorded waits for that one: the run has
        ended, but a crash would bring it back.
        """
        under_way = self._recording.get(result.run_id)
        if under_way is not None and under_way[0][0] in apps:
            return under_way[1]
        key = self._holder_of(apps, result.run_id)
        if key is None:
            return None
        loop = asyncio.get_running_loop()
        recorded: asyncio.Future[bool] = loop.create_future()

        def note() -> None:
            if not recorded.done():
                recorded.set_result(True)

        def note_safely() -> None:
            with contextlib.suppress(RuntimeError):  # the gateway has ended
                loop.call_soon_threadsafe(note)

        if self._remotes[key].call_back(result, note_safely):
            self._offered.pop(result.run_id, None)
            self._recording[result.run_id] = key, recorded
            recorded.add_done_callback(lambda _: self._recording.pop(result.run_id, None))
        else:
            recorded.set_result(False)
        return recorded

    def _has_ended(self, apps: Collection[str], result: RemoteResult) -> bool:
        """Whether an executor here had the run, which has ended."""
        has_ended = any(
            key[0] in apps and remote.has_ended(result.run_id)
            for key, remote in self._remotes.items()
        )
        if has_ended:
            log.info("remote_callback_ignored", run_id=result.run_id, code=result.code)
        return has_ended

    def _holder_of(self, apps: Collection[str], run_id: int) -> Key | None:
        holders = (
            key
            for key, remote in self._remotes.items()
            if key[0] in apps and remote.has_run(run_id)
        )
        return next(holders, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """How registered executors are served: where their state is, and what they get."""

    state_dir: Path
    allowed: AllowList
    tokens: AccessTokens
    limits: RemoteLimits
    run_logs: RunLogs
    record_seconds: float = RECORD_SECONDS


@dataclass(slots=True)
class _Wanted:
    """An executor that registers here and could not be served, and when it is tried again.

    Times are monotonic seconds. It is forgotten `until` it registers again.
    """

    url: RemoteUrl
    appname: str
    why: str
    until: float
    retry_at: float
    wait_seconds: float


class Remotes:
    """The registered executors by app and address. Used from one event loop's thread."""

    def __init__(
        self,
        options: RemoteOptions,
        make_executor: ExecutorFactory,
        peers: Peers | None = None,
        refused: RefusedAddresses | None = None,
    ) -> None:
        self._options = options
        self._refused = refused
        self._make_executor = make_executor
        self._peers = peers or Peers((), {}, Signatures({}))
        self._remotes: dict[Key, Remote] = {}
        self._starting: set[Key] = set()
        self._callbacks = Callbacks(self._remotes, options.record_seconds)
        self._wanted: dict[Key, _Wanted] = {}
        #: Until when (monotonic seconds) not to serve those that were drained.
        self._drained: dict[Key, float] = {}
        #: The gateway that continues the executors when this one ends; empty for none.
        self._heir = ""
        self._leaving: set[Key] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    @property
    def is_empty(self) -> bool:
        """Whether none is served, or still to be handed over."""
        return not (self._remotes or self._starting or self._tasks)

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
        """Record that an executor registered, and serve it if it is new and no other gateway does.

        `appname` is its own name for its app, if it is of 3.5.

        Raises:
            BadRequest: it cannot be served now, so it should try another gateway.
            AddressRefused: its URL may not be registered.

        """
        try:
            url = self._options.allowed.check(text)
        except NotListed as refused:
            await self._show_refused(app, refused.remote, appname)
            raise
        key = (app, url.address)
        if self._is_closing:
            raise BadRequest("the gateway is shutting down")
        if self._note(key, appname) or self._is_left_alone(key, url):
            return
        if await self._peers.register(app, url.text, appname):
            self._wanted.pop(key, None)
        elif (wanted := self._wanted.get(key)) is not None:
            wanted.until = time.monotonic() + REGISTERED_SECONDS
            wanted.appname = appname
            raise BadRequest(wanted.why)
        elif key not in self._starting | self._leaving:
            await self._serve(app, url, appname)

    async def _show_refused(self, app: str, url: RemoteUrl, appname: str) -> None:
        """Show one that is not allowed here in the list of executors, unless another serves it."""
        is_served = await self._peers.register(app, url.text, appname)
        if not is_served and not self._is_closing and self._refused is not None:
            self._refused.note(app, url.address)

    def note(self, app: str, text: str, appname: str = "") -> bool:
        """Record that an executor registered at another gateway, which asks whether to leave it.

        Return whether it is served here, is about to be, is being handed over, or was drained here
        and is not to be served.

        Raises:
            AddressRefused: its URL may not be registered.

        """
        url = self._options.allowed.check(text)
        key = (app, url.address)
        is_served = self._note(key, appname) or key in self._starting | self._leaving
        return is_served or self._is_left_alone(key, url)

    async def sign_off(self, app: str, text: str, *, is_passed_on: bool = False) -> None:
        """Record that an executor signed off, here or at another gateway.

        Raises:
            AddressRefused: its URL may not be registered.

        """
        try:
            url = self._options.allowed.check(text)
        except NotListed as refused:
            if self._refused is not None:
                self._refused.forget(app, refused.remote.address)
            raise
        key = (app, url.address)
        self._wanted.pop(key, None)
        if self._drained.pop(key, None) is not None:
            forget_drained(self._options.state_dir, *key)
        if (remote := self._remotes.get(key)) is not None:
            remote.sign_off()
        elif not is_passed_on:
            await self._peers.sign_off(app, url.text)

    async def call_back(self, apps: Collection[str], results: Sequence[RemoteResult]) -> None:
        """End runs of these apps, here or at another gateway, once that is in the journals.

        Results of runs that no gateway knows are refused for a while, as another may be about to
        return with them.

        Raises:
            NotRecorded: the executor must repeat the call; what was recorded counts once.

        """
        unknown, are_recorded = await self._callbacks.record(apps, results)
        if unknown:
            unknown = await self._peers.pass_on(next(iter(apps)), unknown)
        lost = [result for result in unknown if not self._callbacks.is_given_up(result)]
        if lost or not are_recorded:
            raise NotRecorded("not every result could be recorded, call back again")

    async def take_results(
        self, apps: Collection[str], results: Sequence[RemoteResult]
    ) -> list[int]:
        """Record results that another gateway passes on; return the runs that were known here.

        Raises:
            NotRecorded: not all of them could be recorded.

        """
        unknown, are_recorded = await self._callbacks.record(apps, results)
        if not are_recorded:
            raise NotRecorded("not every result could be recorded, call back again")
        left = {result.run_id for result in unknown}
        return [result.run_id for result in results if result.run_id not in left]

    async def inherit(self, handover: Handover) -> None:
        """Continue an executor of a gateway that ends, as the same boot.

        If it is served here already, as it was taken over, go on with what the other one left.

        Raises:
            BadRequest: it cannot be continued here.
            AddressRefused: its URL may not be registered.

        """
        url = self._options.allowed.check(handover.note.url)
        key = (handover.app, url.address)
        if self._is_closing:
            raise BadRequest("the gateway is shutting down")
        if handover.is_served:
            await self._adopt(key, handover)
            return
        if key in self._remotes or key in self._starting:
            raise BadRequest("the executor is served here")
        self._wanted.pop(key, None)
        try:
            await self._begin(handover.app, url, handover.note.appname, handover)
        except (ExecutorError, OSError) as error:
            raise BadRequest(str(error)) from error
        log.info("remote_inherited", app=handover.app, url=url.text)

    async def _adopt(self, key: Key, handover: Handover) -> None:
        remote = self._remotes.get(key)
        if remote is None or not remote.executor.is_taking:
            raise BadRequest("the executor is not served here")
        await remote.adopt(await asyncio.to_thread(lambda: handover.journal_bytes))
        log.info("remote_adopted", app=handover.app, address=key[1])

    @property
    def takes_over(self) -> bool:
        """Whether executors may be handed over to this gateway."""
        return not self._is_closing

    def run_round(self) -> None:
        """Drop those that have ended, and try again to serve those that could not be served."""
        if self._refused is not None:
            self._refused.run_round()
        for key, remote in list(self._remotes.items()):
            if remote.is_over:
                del self._remotes[key]
                self._settle(key, remote)
            elif remote.executor.is_taking:
                self._wanted.pop(key, None)
        now = time.monotonic()
        for key, wanted in list(self._wanted.items()):
            if wanted.until <= now:
                del self._wanted[key]
            elif wanted.retry_at <= now and key not in self._remotes and not self._is_closing:
                wanted.retry_at = now + wanted.wait_seconds
                self._start_task(self._retry(key, wanted))

    def close(self, *, hurry: bool) -> None:
        """Begin to shut all of them down, and accept no more."""
        self._is_closing = True
        if self._peers and not hurry:
            self._start_task(self._leave())
        else:
            self._stop_all(hurry=hurry)

    async def end(self) -> None:
        """End the connections to other gateways."""
        await self._peers.close()

    async def _leave(self) -> None:
        """Shut down: at once if another gateway continues the runs."""
        self._heir = await self._peers.find()
        self._stop_all(hurry=bool(self._heir))

    def _stop_all(self, *, hurry: bool) -> None:
        for remote in self._remotes.values():
            remote.stop(hurry=hurry)

    async def _hand_over(self, key: Key, remote: Remote) -> None:
        """Let the other gateway continue one that has ended here."""
        app, address = key
        try:
            note, journal = remote.bequest
            handover = await asyncio.to_thread(Handover.of, app, note, journal)
            remote.bequeath()
            is_handed = await self._peers.hand_over(self._heir, handover)
            if is_handed is None:
                is_handed = await self._peers.register(app, note.url, note.appname)
            if is_handed:
                log.info("remote_handed_over", app=app, address=address, peer=self._heir)
                remote.discard()
                return
            remote.take_back()
        except OSError as error:
            log.warning("remote_note_failed", app=app, address=address, error=str(error))
        finally:
            self._leaving.discard(key)
        log.warning("remote_not_handed_over", app=app, address=address, peer=self._heir)

    async def _bequeath(self, key: Key, remote: Remote, note: Note, journal: bytes) -> None:
        """Give the journal of one that was replaced to the gateway that serves it now.

        That one may be away in turn. It is not needed there if its executor is served here again.
        """
        app, address = key
        make = partial(Handover.of, is_served=True)
        try:
            handover = await asyncio.to_thread(make, app, note, journal)
            for attempt in range(BEQUESTS):
                if attempt:
                    await asyncio.sleep(BEQUEST_SECONDS)
                if attempt >= HELD_BEQUESTS:
                    self._leaving.discard(key)
                if self._is_closing or key in self._remotes or key in self._starting:
                    return
                if await self._peers.bequeath(handover):
                    log.info("remote_bequeathed", app=app, address=address)
                    if key not in self._remotes and key not in self._starting:
                        remote.discard()
                    return
        except OSError as error:
            log.warning("remote_note_failed", app=app, address=address, error=str(error))
        finally:
            self._leaving.discard(key)
        log.warning("remote_not_bequeathed", app=app, address=address)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _retry(self, key: Key, wanted: _Wanted) -> None:
        if await self._peers.register(key[0], wanted.url.text, wanted.appname):
            self._wanted.pop(key, None)
        elif key not in {*self._remotes, *self._starting, *self._leaving}:
            with contextlib.suppress(BadRequest):
                await self._serve(key[0], wanted.url, wanted.appname)

    def _note(self, key: Key, appname: str) -> bool:
        remote = self._remotes.get(key)
        if remote is not None:
            remote.register(appname)
        return remote is not None

    def _want(self, key: Key, url: RemoteUrl, appname: str, why: str) -> None:
        """Plan another try for one that registers here and cannot be served now."""
        now = time.monotonic()
        last = self._wanted.get(key)
        seconds = min(last.wait_seconds * 2, LONGEST_RETRY_SECONDS) if last else RETRY_SECONDS
        until = last.until if last else now + REGISTERED_SECONDS
        self._wanted[key] = _Wanted(url, appname, why, until, now + seconds, seconds)

    async def _serve(self, app: str, url: RemoteUrl, appname: str) -> None:
        if len(self._remotes) + len(self._starting) >= REMOTES_LIMIT:
            raise BadRequest(f"{REMOTES_LIMIT} executors are registered already")
        try:
            await self._begin(app, url, appname)
        except (ExecutorError, OSError) as error:
            self._want((app, url.address), url, appname, str(error))
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
        await self._begin(app, url, note.appname)

    async def _begin(
        self, app: str, url: RemoteUrl, appname: str, handover: Handover | None = None
    ) -> None:
        key = (app, url.address)
        self._starting.add(key)
        try:
            remote = await asyncio.to_thread(self._start, app, url, appname, handover)
        finally:
            self._starting.discard(key)
        self._remotes[key] = remote
        log.info("remote_registered", app=app, url=url.text, address=url.address)
        if self._is_closing:
            remote.stop(hurry=False)

    def _start(self, app: str, url: RemoteUrl, appname: str, handover: Handover | None) -> Remote:
        options = self._options
        folder = RemoteFolder(options.state_dir, app, url.address)
        client = RemoteClient(url, options.tokens.by_app[app], options.allowed)
        client.appname = appname
        slots = partial(RemoteSlots, limits=options.limits, run_logs=options.run_logs)
        with contextlib.ExitStack() as held:
            held.callback(folder.state.release)
            if handover is not None:
                folder.inherit(handover.note, handover.journal_bytes)
            remote = Remote(app, client, folder, slots=slots, make_executor=self._make_executor)
            held.pop_all()  # from here on the executor releases it
        remote.start()
        return remote

    def _settle(self, key: Key, remote: Remote) -> None:
        self._callbacks.forget(key)
        executor = remote.executor
        try:
            if executor.was_replaced and self._peers:
                self._start_task(self._bequeath(key, remote, *remote.past))
                self._leaving.add(key)
            remote.settle()
        except OSError as error:  # at worst, the next start serves it needlessly
            log.warning("remote_note_failed", app=key[0], address=key[1], error=str(error))
        if executor.was_drained and not remote.has_left_runs:
            if seconds := remote.drained_seconds:
                self._leave_alone(key, remote.url, seconds)
        elif self._heir:
            if not remote.is_done_with:
                self._leaving.add(key)
                self._start_task(self._hand_over(key, remote))
        elif (executor.was_drained or executor.failure) and remote.registered_seconds:
            why = executor.failure or "it was drained and is about to be served again"
            self._want(key, remote.url, remote.appname, why)
        log.info("remote_dropped", app=key[0], address=key[1])

    def _leave_alone(self, key: Key, url: RemoteUrl, seconds: float) -> None:
        """Do not serve a drained one for a while, nor let the next gateway do so."""
        self._drained[key] = time.monotonic() + seconds
        note = Note(url.text, drained_until=time.time() + seconds)
        try:
            note_drained(self._options.state_dir, *key, note)
        except OSError as error:
            log.warning("remote_note_failed", app=key[0], address=key[1], error=str(error))

    def _is_left_alone(self, key: Key, url: RemoteUrl) -> bool:
        """Whether one was drained; it must be away for a while before it is served again."""
        if self._drained.get(key, 0.0) > time.monotonic():
            self._leave_alone(key, url, REGISTERED_SECONDS)
            return True
        self._drained.pop(key, None)
        return False
