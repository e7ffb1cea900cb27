"""The registered executors: what outlives them, and what they are told while the gateway ends."""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from tests.support.http_peer import OK, Peer, http, peer_with
from tests.support.moved_loop import MovedLoop
from warren.broker.messages.to_executor import Trigger
from warren.broker.messages.to_scheduler import Finished, NotStarted
from warren.executor.core.state_folder import StateFolder
from warren.executor.gateway.allow_list import AccessTokens, AllowList
from warren.executor.gateway.protocol import AddressRefused, BadRequest, NotRecorded, RemoteResult
from warren.executor.gateway.remote_logs import Note, RemoteFolder
from warren.executor.gateway.remote_run import PROOF_SECONDS, RemoteLimits
from warren.executor.gateway.remote_slots import RemoteSlots
from warren.executor.gateway.remote_watch import REGISTERED_SECONDS
from warren.executor.gateway.remotes import RemoteOptions, Remotes
from warren.executor.logs.run_logs import RunLogs
from warren.executor.messaging.signed_sender import Identity
from warren.executor.processes.interface import SlotEvents, SlotsFactory

URL = "http://jobs:9999"
KEY = ("demo", "jobs:9999")
T = TypeVar("T")


class FakeExecutor:
    """Stands in for `Executor`: has real remote slots, and ends when a test says so."""

    def __init__(
        self,
        case: "Case",
        *,
        app: str,
        address: str,
        slots: SlotsFactory,
        folder: StateFolder,
        boot_id: str,
    ) -> None:
        self.identity = Identity(app=app, address=address, boot_id=boot_id)
        self.is_alive = self.is_settled = False
        self.was_clean = self.was_drained = self.was_refused = False
        self.failure = ""
        self.was_told: list[str] = []
        self.ended: list[Finished | NotStarted] = []
        self.slots: RemoteSlots
        self._case = case
        self._make_slots = slots
        self.folder = folder

    def start(self) -> None:
        slots = self._make_slots(
            loop=self._case.loop,
            events=SlotEvents(lambda _run_id: None, self._finish, lambda: None),
            script_folder=self.folder.script_folder,
        )
        assert isinstance(slots, RemoteSlots)
        self.slots = slots
        self.is_alive = True

    def stop(self, *, hurry: bool) -> None:
        self.was_told.append("hurry" if hurry else "stop")

    def drain(self) -> None:
        self.was_told.append("drain")

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


class Case:
    """Registered executors of a gateway, and the state that the next one finds."""

    def __init__(self, folder: Path) -> None:
        self.loop = MovedLoop()
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
            tokens=AccessTokens.parse("demo: a-token-of-one-app"),
            limits=RemoteLimits(count=4, grace_seconds=0, script_languages=()),
            run_logs=RunLogs(folder / "logs"),
        )
        self.remotes = self.gateway()

    def gateway(self) -> Remotes:
        self.remotes = Remotes(self._options, self._make)
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

    def close(self) -> None:
        for executor in self.executors:
            self.do(executor.slots.close(0))
            if executor.is_alive:
                executor.end(clean=True)
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


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.close()


class TestVersion:
    @pytest.fixture
    def peer(self, case: Case) -> Iterator[Peer]:
        held = AsyncExitStack()
        yield case.do(held.enter_async_context(peer_with(http(OK))))
        case.do(held.aclose())

    def register(self, case: Case, peer: Peer, appname: str = "") -> None:
        case.do(case.remotes.register("demo", f"http://127.0.0.1:{peer.port}", appname))

    def restart(self, case: Case) -> None:
        case.executors[-1].end(clean=False)
        case.restored()

    def is_of_3_5(self, request: bytes) -> bool:
        """Whether the one that is called so is taken for an executor of 3.5, by its own name."""
        return request.startswith(b"POST /trigger ") and b"XXL-JOB-APPNAME: Demo\r\n" in request

    def test_executor_that_names_its_app_is_called_as_3_5_wants_it(
        self, case: Case, peer: Peer
    ) -> None:
        self.register(case, peer, "Demo")

        assert self.is_of_3_5(case.start(1, peer))

    def test_it_is_known_after_a_restart(self, case: Case, peer: Peer) -> None:
        self.register(case, peer, "Demo")

        self.restart(case)

        assert self.is_of_3_5(case.start(1, peer))

    def test_executor_that_was_upgraded_is_called_in_the_new_way(
        self, case: Case, peer: Peer
    ) -> None:
        self.register(case, peer)
        old = case.start(1, peer)
        self.register(case, peer, "Demo")
        first = case.start(2, peer)

        self.restart(case)

        assert old.startswith(b"POST /run ")
        assert self.is_of_3_5(first)
        assert self.is_of_3_5(case.start(3, peer))


class TestWhatOutlivesThem:
    def test_one_that_left_and_reported_everything_is_forgotten(self, case: Case) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.end(clean=True)
        case.remotes.run_round()

        assert executor.was_told == ["drain"]
        assert case.restored() == []

    @pytest.mark.parametrize("has_reported", [True, False])
    def test_one_that_left_and_reported_everything_leaves_no_journal(
        self, case: Case, has_reported: bool
    ) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()
        journal = executor.folder.journal_path
        journal.write_bytes(b"what it did")

        executor.is_settled = has_reported
        executor.end(clean=has_reported)
        case.remotes.run_round()

        assert journal.exists() is not has_reported

    def test_one_that_left_and_was_never_welcomed_is_forgotten(self, case: Case) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == []

    def test_nobody_is_left_before_his_reports_have_arrived(self, case: Case) -> None:
        executor = case.gone(case.register())

        case.remotes.run_round()
        before = list(executor.was_told)
        executor.is_settled = True
        case.remotes.run_round()

        assert (before, executor.was_told) == ([], ["drain"])

    def test_one_that_left_with_reports_is_gone_on_with(self, case: Case) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.is_settled = False  # a last run came, and RabbitMQ went away
        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == [executor.identity.boot_id]

    def test_one_that_was_draining_when_the_gateway_ended_is_gone_on_with(self, case: Case) -> None:
        executor = case.register()
        executor.was_drained = True
        case.remotes.close(hurry=False)

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == [executor.identity.boot_id]

    def drained(self, case: Case) -> None:
        executor = case.register()
        executor.was_drained = True
        executor.end(clean=True)
        case.remotes.run_round()

    def test_one_that_was_drained_is_not_served_by_the_next_gateway_while_it_registers(
        self, case: Case
    ) -> None:
        self.drained(case)
        case.register()

        restored = [case.restored() for _ in range(2)]
        case.register()

        assert restored == [[], []]
        assert len(case.executors) == 1

    def test_one_that_was_drained_may_register_late_and_is_still_not_served(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.drained(case)
        later = time.monotonic() + REGISTERED_SECONDS - 5
        monkeypatch.setattr(time, "monotonic", lambda: later)

        case.register()

        assert len(case.executors) == 1

    def test_one_that_was_drained_and_signed_off_is_served_by_the_next_gateway(
        self, case: Case
    ) -> None:
        self.drained(case)
        case.restored()
        case.remotes.sign_off("demo", URL)

        assert case.restored() == []
        case.register()
        assert len(case.executors) == 2

    def test_one_that_was_drained_and_stayed_away_is_served_by_the_next_gateway(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.drained(case)
        case.register()
        later = time.time() + REGISTERED_SECONDS
        monkeypatch.setattr(time, "time", lambda: later)

        assert case.restored() == []
        case.register()
        assert len(case.executors) == 2

    def test_one_that_signed_off_while_it_was_drained_is_served_when_it_registers(
        self, case: Case
    ) -> None:
        executor = case.register()
        executor.was_drained = True
        case.remotes.sign_off("demo", URL)
        case.register()

        executor.end(clean=True)
        case.remotes.run_round()
        case.register()

        assert len(case.executors) == 2

    def test_one_that_stayed_away_while_it_was_drained_is_served_when_it_registers(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        executor = case.register()
        executor.was_drained = True
        later = time.monotonic() + REGISTERED_SECONDS + 1
        monkeypatch.setattr(time, "monotonic", lambda: later)
        case.register()

        executor.end(clean=True)
        case.remotes.run_round()
        case.register()

        assert len(case.executors) == 2

    def test_one_that_registered_while_it_was_drained_is_not_served(self, case: Case) -> None:
        executor = case.register()
        case.remotes.sign_off("demo", URL)
        case.register()
        executor.was_drained = True
        case.register()

        executor.end(clean=True)
        case.remotes.run_round()
        case.register()

        assert len(case.executors) == 1

    def test_one_whose_address_another_holds_is_forgotten(self, case: Case) -> None:
        executor = case.register()
        executor.was_refused = True

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == []

    def test_one_that_ended_with_the_gateway_begins_anew(self, case: Case) -> None:
        executor = case.register()
        case.remotes.close(hurry=False)

        executor.end(clean=True)
        case.remotes.run_round()

        [boot_id] = case.restored()
        assert boot_id != executor.identity.boot_id


class TestCallbacks:
    def test_result_is_recorded_before_it_is_answered(self, case: Case) -> None:
        executor = case.register()
        case.run()

        case.call_back()

        assert [end.run_id for end in executor.ended] == [1]

    def test_result_that_nobody_waits_for_is_answered_and_ignored(self, case: Case) -> None:
        executor = case.register()

        case.call_back(99)

        assert executor.ended == []

    def test_result_that_is_not_recorded_is_to_come_again(self, case: Case) -> None:
        case.register()
        case.run()
        case.records = False

        with pytest.raises(NotRecorded, match="call back again"):
            case.call_back()

    def test_a_repeated_result_waits_for_the_first_to_be_recorded(self, case: Case) -> None:
        executor = case.register()
        case.run()
        case.records = False
        for _ in range(2):
            with pytest.raises(NotRecorded):
                case.call_back()

        case.record()
        case.call_back()

        assert [end.run_id for end in executor.ended] == [1]

    def test_result_of_a_run_that_was_left_to_the_next_gateway_is_to_come_again(
        self, case: Case
    ) -> None:
        executor = case.register()
        case.run()
        case.remotes.close(hurry=False)
        executor.end(clean=False)
        case.remotes.run_round()

        with pytest.raises(NotRecorded):
            case.call_back()

    def test_result_for_an_executor_whose_thread_has_ended_is_to_come_again(
        self, case: Case
    ) -> None:
        executor = case.register()
        case.run()
        executor.slots.post = lambda *_: False  # type: ignore[method-assign]

        with pytest.raises(NotRecorded):
            case.call_back()

    def test_result_for_an_executor_that_is_just_begun_with_is_to_come_again(
        self, case: Case
    ) -> None:
        executor = case.register()
        case.run()
        executor.end(clean=False)
        case.remotes.run_round()
        registering = case.loop.create_task(case.remotes.register("demo", URL))

        async def call_back() -> None:
            await asyncio.sleep(0)
            await case.remotes.call_back(["demo"], [RemoteResult(1, 200, "done")])

        with pytest.raises(NotRecorded):
            case.do(call_back())
        case.do(registering)

    @pytest.fixture
    def left(self, case: Case) -> FakeExecutor:
        """One with a run that the gateway has left behind, and could not serve since."""
        executor = case.register()
        case.run()
        executor.end(clean=False)
        with pytest.MonkeyPatch.context() as full_disk:
            full_disk.setattr(Path, "write_bytes", fail_for_want_of_space)
            assert case.restored() == []
        return executor

    def test_result_for_an_executor_that_cannot_be_served_yet_is_to_come_again(
        self, case: Case, left: FakeExecutor
    ) -> None:
        with pytest.raises(NotRecorded):
            case.call_back()

        again = case.register()
        case.run()
        case.call_back()

        assert again.identity.boot_id == left.identity.boot_id
        assert [end.run_id for end in again.ended] == [1]
        case.call_back(99)  # and what nobody knows comes to its end again

    @pytest.mark.usefixtures("left")
    def test_result_for_an_executor_that_is_not_served_for_long_is_ignored(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = time.monotonic() + PROOF_SECONDS
        monkeypatch.setattr(time, "monotonic", lambda: now)

        case.call_back()

    def test_result_for_an_executor_that_died_here_is_to_come_again(self, case: Case) -> None:
        executor = case.register()
        case.run()
        executor.end(clean=False)
        case.remotes.run_round()

        with pytest.raises(NotRecorded):
            case.call_back()


def test_executor_whose_address_is_none_is_refused_and_not_remembered(case: Case) -> None:
    with pytest.raises(AddressRefused, match="_jobs cannot name an executor"):
        case.do(case.remotes.register("demo", "http://_jobs:9999"))

    assert case.restored() == []


def test_notes_that_cannot_be_used_keep_no_other_executor_from_being_served(case: Case) -> None:
    boot_id = case.register().identity.boot_id
    case.executors[-1].end(clean=False)
    for url in ("http://127.0.0.1:9999", "http://_jobs:9999"):
        folder = RemoteFolder(case.state_dir, "demo", url.removeprefix("http://"))
        folder.save(Note(url))
        folder.state.release()
    case.unusable.add("127.0.0.1:9999")

    with capture_logs() as events:
        restored = case.restored()

    assert restored == [boot_id]
    refused = [event["why"] for event in events if event["event"] == "remote_refused"]
    assert refused[0] == "expected something else"
    assert refused[1].startswith("_jobs cannot name")


def test_executor_whose_note_cannot_be_written_may_register_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full_disk:
        full_disk.setattr(Path, "write_bytes", fail_for_want_of_space)
        with pytest.raises(BadRequest, match="No space left"):
            case.register()
    case.gateway()

    assert case.register().is_alive


def test_note_that_cannot_be_written_at_the_end_ends_nothing_else(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = case.register()
    executor.end(clean=True)

    with monkeypatch.context() as full_disk, capture_logs() as events:
        full_disk.setattr(Path, "write_bytes", fail_for_want_of_space)
        case.remotes.run_round()

    assert case.remotes.is_empty
    assert [event["event"] for event in events] == ["remote_note_failed", "remote_dropped"]


def fail_for_want_of_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
