"""The registered executors of a gateway: remote runs, and executors that are stand-ins."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.support.http_peer import Peer
from tests.support.moved_loop import MovedLoop
from warren.broker.messages import Finished, NotStarted, Trigger
from warren.executor.gateway.allow_list import AccessTokens, AllowList
from warren.executor.gateway.peers import Peers
from warren.executor.gateway.protocol import RemoteResult
from warren.executor.gateway.remote_slots import RemoteLimits, RemoteSlots
from warren.executor.gateway.remotes import RemoteOptions, Remotes
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotEvents, SlotsFactory
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import StateFolder

URL = "http://jobs:9999"
TOKEN = "a-token-of-one-app"
T = TypeVar("T")


class FakeExecutor:
    """Stands in for `Executor`: has real remote slots, and ends when a test says so."""

    def __init__(
        self,
        case: "RemotesCase",
        *,
        app: str,
        address: str,
        slots: SlotsFactory,
        folder: StateFolder,
        boot_id: str,
    ) -> None:
        self.identity = Identity(app=app, address=address, boot_id=boot_id)
        self.is_alive = self.is_settled = False
        self.is_taking = True
        self.was_clean = self.was_drained = self.was_refused = self.was_replaced = False
        self.failure = ""
        self.was_told: list[str] = []
        self.ended: list[Finished | NotStarted] = []
        self.adopted: list[bytes] = []
        self.slots: RemoteSlots
        self._case = case
        self._make_slots = slots
        self.folder = folder

    def start(self) -> None:
        """Begin."""
        slots = self._make_slots(
            loop=self._case.loop,
            events=SlotEvents(lambda _run_id: None, self._finish, lambda: None),
            script_folder=self.folder.script_folder,
        )
        assert isinstance(slots, RemoteSlots)
        self.slots = slots
        self.folder.journal_path.touch()
        self.is_alive = True

    def stop(self, *, hurry: bool) -> None:
        self.was_told.append("hurry" if hurry else "stop")

    def drain(self) -> None:
        self.was_told.append("drain")

    def adopt(self, journal: bytes, then: Callable[[str], None]) -> None:
        self.adopted.append(journal)
        then("")

    def end(self, *, clean: bool) -> None:
        self.was_clean, self.is_alive = clean, False
        self.folder.release()

    def _finish(
        self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None = None
    ) -> None:
        self.ended.append(end)
        if on_recorded is None:
            return
        self._case.unrecorded.append(on_recorded)
        if self._case.records:
            self._case.record()


class RemotesCase:
    """Registered executors of a gateway, and the state that the next one finds."""

    def __init__(self, folder: Path, loop: MovedLoop | None = None) -> None:
        self.loop = loop or MovedLoop()
        self.peers: Peers | None = None
        self.state_dir = folder / "state"
        self.executors: list[FakeExecutor] = []
        #: Whether what is called back reaches the journal.
        self.records = True
        self.unrecorded: list[Callable[[], None]] = []
        #: The addresses that no executor can be made for.
        self.unusable: set[str] = set()
        self._options = RemoteOptions(
            record_seconds=0.2,
            state_dir=self.state_dir,
            allowed=AllowList.parse("jobs,_jobs,127.0.0.1"),
            tokens=AccessTokens.parse(f"demo: {TOKEN}"),
            limits=RemoteLimits(count=4, grace_seconds=0, script_languages=()),
            run_logs=RunLogs(folder / "logs"),
        )
        self.remotes = self.gateway()

    def gateway(self) -> Remotes:
        self.remotes = Remotes(self._options, self._make, self.peers)
        return self.remotes

    def do(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            async with asyncio.timeout(20):
                return await work

        return self.loop.run_until_complete(wait())

    def record(self) -> None:
        """Let what was called back reach the journal."""
        while self.unrecorded:
            self.unrecorded.pop()()

    def register(self) -> FakeExecutor:
        self.do(self.remotes.register("demo", URL))
        return self.executors[-1]

    def run(self, run_id: int = 1) -> None:
        """Let a run be at the latest executor."""

        async def resume() -> None:
            self.executors[-1].slots.resume(trigger(run_id), 1, 0.0)

        self.do(resume())

    def start(self, run_id: int, peer: Peer) -> bytes:
        """Start a run at the latest executor, which is this one; return what it is sent."""
        before = len(peer.requests)

        async def start() -> None:
            self.executors[-1].slots.start(trigger(run_id))
            while len(peer.requests) == before:  # noqa: ASYNC110 - a peer tells of nothing
                await asyncio.sleep(0.001)

        self.do(start())
        return peer.requests[before]

    def call_back(self, run_id: int = 1) -> None:
        self.do(self.remotes.call_back(["demo"], [RemoteResult(run_id, 200, "done")]))

    def gone(self, executor: FakeExecutor) -> FakeExecutor:
        """Let an executor have left for so long that nobody waits for it."""
        executor.slots.sign_off()
        self.loop.skip(3600)
        return executor

    def restored(self) -> list[str]:
        """Return the boots that another gateway begins with."""
        before = len(self.executors)
        self.do(self.gateway().restore())
        return [executor.identity.boot_id for executor in self.executors[before:]]

    def close_executors(self) -> None:
        """End what is still served."""
        for executor in self.executors:
            self.do(executor.slots.close(0))
            if executor.is_alive:
                executor.end(clean=True)

    def close(self) -> None:
        """End everything."""
        self.close_executors()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def _make(self, **facts: Any) -> Any:
        if facts["address"] in self.unusable:
            raise ValueError("expected something else")
        executor = FakeExecutor(self, **facts)
        self.executors.append(executor)
        return executor


def trigger(run_id: int) -> Trigger:
    return Trigger(
        run_id=run_id, job_id=5, boot_id="b", kind="CRON", handler="h", scheduled_at_ms=1
    )
