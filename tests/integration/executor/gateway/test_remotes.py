"""The registered executors: what outlives them, and what they are told while the gateway ends."""

import asyncio
import errno
import os
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.http_peer import OK, Peer, http, peer_with
from tests.support.remotes_case import URL, FakeExecutor, RemotesCase
from warren.broker.destinations import AddressRefused
from warren.executor.gateway.protocol import BadRequest, NotRecorded, RemoteResult
from warren.executor.gateway.remote_logs import Note, RemoteFolder
from warren.executor.gateway.remote_slots import REGISTERED_SECONDS
from warren.executor.gateway.remotes import OFFERED_SECONDS


@pytest.fixture
def case(tmp_path: Path) -> Iterator[RemotesCase]:
    case = RemotesCase(tmp_path)
    yield case
    case.close()


class TestVersion:
    @pytest.fixture
    def peer(self, case: RemotesCase) -> Iterator[Peer]:
        held = AsyncExitStack()
        yield case.do(held.enter_async_context(peer_with(http(OK))))
        case.do(held.aclose())

    def register(self, case: RemotesCase, peer: Peer, appname: str = "") -> None:
        case.do(case.remotes.register("demo", f"http://127.0.0.1:{peer.port}", appname))

    def restart(self, case: RemotesCase) -> None:
        case.executors[-1].end(clean=False)
        case.restored()

    def is_of_3_5(self, request: bytes) -> bool:
        """Whether the one that is called so is taken for an executor of 3.5, by its own name."""
        return request.startswith(b"POST /trigger ") and b"XXL-JOB-APPNAME: Demo\r\n" in request

    def test_executor_that_names_its_app_is_called_as_3_5_wants_it(
        self, case: RemotesCase, peer: Peer
    ) -> None:
        self.register(case, peer, "Demo")

        assert self.is_of_3_5(case.start(1, peer))

    def test_it_is_known_after_a_restart(self, case: RemotesCase, peer: Peer) -> None:
        self.register(case, peer, "Demo")

        self.restart(case)

        assert self.is_of_3_5(case.start(1, peer))

    def test_executor_that_was_upgraded_is_called_in_the_new_way(
        self, case: RemotesCase, peer: Peer
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
    def test_one_that_left_and_reported_everything_is_forgotten(self, case: RemotesCase) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.end(clean=True)
        case.remotes.run_round()

        assert executor.was_told == ["drain"]
        assert case.restored() == []

    @pytest.mark.parametrize("has_reported", [True, False])
    def test_one_that_left_and_reported_everything_leaves_no_journal(
        self, case: RemotesCase, has_reported: bool
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

    def test_one_that_left_and_was_never_welcomed_is_forgotten(self, case: RemotesCase) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == []

    def test_nobody_is_left_before_his_reports_have_arrived(self, case: RemotesCase) -> None:
        executor = case.gone(case.register())

        case.remotes.run_round()
        before = list(executor.was_told)
        executor.is_settled = True
        case.remotes.run_round()

        assert (before, executor.was_told) == ([], ["drain"])

    def test_one_that_left_with_reports_is_gone_on_with(self, case: RemotesCase) -> None:
        executor = case.gone(case.register())
        executor.is_settled = True
        case.remotes.run_round()

        executor.is_settled = False  # a last run came, and RabbitMQ went away
        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == [executor.identity.boot_id]

    def test_one_that_was_draining_when_the_gateway_ended_is_gone_on_with(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        executor.was_drained = True
        case.remotes.close(hurry=False)

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == [executor.identity.boot_id]

    def drained(self, case: RemotesCase) -> None:
        executor = case.register()
        executor.was_drained = True
        executor.end(clean=True)
        case.remotes.run_round()

    def test_one_that_was_drained_is_not_served_by_the_next_gateway_while_it_registers(
        self, case: RemotesCase
    ) -> None:
        self.drained(case)
        case.register()

        restored = [case.restored() for _ in range(2)]
        case.register()

        assert restored == [[], []]
        assert len(case.executors) == 1

    def test_one_that_was_drained_may_register_late_and_is_still_not_served(
        self, case: RemotesCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.drained(case)
        later = time.monotonic() + REGISTERED_SECONDS - 5
        monkeypatch.setattr(time, "monotonic", lambda: later)

        case.register()

        assert len(case.executors) == 1

    def test_one_that_was_drained_and_signed_off_is_served_by_the_next_gateway(
        self, case: RemotesCase
    ) -> None:
        self.drained(case)
        case.restored()
        case.do(case.remotes.sign_off("demo", URL))

        assert case.restored() == []
        case.register()
        assert len(case.executors) == 2

    def test_one_that_was_drained_and_stayed_away_is_served_by_the_next_gateway(
        self, case: RemotesCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.drained(case)
        case.register()
        later = time.time() + REGISTERED_SECONDS
        monkeypatch.setattr(time, "time", lambda: later)

        assert case.restored() == []
        case.register()
        assert len(case.executors) == 2

    def test_one_that_signed_off_while_it_was_drained_is_served_when_it_registers(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        executor.was_drained = True
        case.do(case.remotes.sign_off("demo", URL))
        case.register()

        executor.end(clean=True)
        case.remotes.run_round()
        case.register()

        assert len(case.executors) == 2

    def test_one_that_stayed_away_while_it_was_drained_is_served_when_it_registers(
        self, case: RemotesCase, monkeypatch: pytest.MonkeyPatch
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

    def test_one_that_registered_while_it_was_drained_is_not_served(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        case.do(case.remotes.sign_off("demo", URL))
        case.register()
        executor.was_drained = True
        case.register()

        executor.end(clean=True)
        case.remotes.run_round()
        case.register()

        assert len(case.executors) == 1

    def test_one_whose_address_another_holds_is_forgotten(self, case: RemotesCase) -> None:
        executor = case.register()
        executor.was_refused = True

        executor.end(clean=False)
        case.remotes.run_round()

        assert case.restored() == []

    def test_one_that_ended_with_the_gateway_begins_again(self, case: RemotesCase) -> None:
        executor = case.register()
        case.remotes.close(hurry=False)

        executor.end(clean=True)
        case.remotes.run_round()

        [boot_id] = case.restored()
        assert boot_id != executor.identity.boot_id


class TestCallbacks:
    def test_result_is_recorded_before_it_is_answered(self, case: RemotesCase) -> None:
        executor = case.register()
        case.run()

        case.call_back()

        assert [end.run_id for end in executor.ended] == [1]

    def test_result_of_a_run_that_has_ended_is_answered_and_ignored(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        case.run()
        case.call_back()

        case.call_back()

        assert [end.run_id for end in executor.ended] == [1]

    def test_result_that_nobody_holds_is_refused_for_five_minutes_and_then_on_record(
        self, case: RemotesCase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        case.register()
        began = time.monotonic()
        with pytest.raises(NotRecorded):
            case.call_back(99)
        monkeypatch.setattr(time, "monotonic", lambda: began + OFFERED_SECONDS - 1)
        with pytest.raises(NotRecorded):
            case.call_back(99)

        monkeypatch.setattr(time, "monotonic", lambda: began + OFFERED_SECONDS + 1)
        with capture_logs() as events:
            case.call_back(99)

        [event] = events
        assert (event["event"], event["run_id"]) == ("remote_callback_dropped", 99)

    def test_result_that_is_not_recorded_is_to_come_again(self, case: RemotesCase) -> None:
        case.register()
        case.run()
        case.records = False

        with pytest.raises(NotRecorded, match="call back again"):
            case.call_back()

    def test_a_repeated_result_waits_for_the_first_to_be_recorded(self, case: RemotesCase) -> None:
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
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        case.run()
        case.remotes.close(hurry=False)
        executor.end(clean=False)
        case.remotes.run_round()

        with pytest.raises(NotRecorded):
            case.call_back()

    def test_result_for_an_executor_whose_thread_has_ended_is_to_come_again(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        case.run()
        executor.slots.post = lambda *_: False  # type: ignore[method-assign]

        with pytest.raises(NotRecorded):
            case.call_back()

    def test_result_for_an_executor_that_is_just_begun_with_is_to_come_again(
        self, case: RemotesCase
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
    def left(self, case: RemotesCase) -> FakeExecutor:
        """One with a run that the gateway has left behind, and could not serve since."""
        executor = case.register()
        case.run()
        executor.end(clean=False)
        with pytest.MonkeyPatch.context() as full_disk:
            full_disk.setattr(Path, "write_bytes", fail_for_want_of_space)
            assert case.restored() == []
        return executor

    def test_result_for_an_executor_that_cannot_be_served_yet_is_to_come_again(
        self, case: RemotesCase, left: FakeExecutor
    ) -> None:
        with pytest.raises(NotRecorded):
            case.call_back()

        again = case.register()
        case.run()
        case.call_back()

        assert again.identity.boot_id == left.identity.boot_id
        assert [end.run_id for end in again.ended] == [1]

    def test_result_for_an_executor_that_died_here_is_to_come_again(
        self, case: RemotesCase
    ) -> None:
        executor = case.register()
        case.run()
        executor.end(clean=False)
        case.remotes.run_round()

        with pytest.raises(NotRecorded):
            case.call_back()


def test_executor_whose_address_is_none_is_refused_and_not_remembered(case: RemotesCase) -> None:
    with pytest.raises(AddressRefused, match="_jobs cannot name an executor"):
        case.do(case.remotes.register("demo", "http://_jobs:9999"))

    assert case.restored() == []


def test_notes_that_cannot_be_used_keep_no_other_executor_from_being_served(
    case: RemotesCase,
) -> None:
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
    case: RemotesCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full_disk:
        full_disk.setattr(Path, "write_bytes", fail_for_want_of_space)
        with pytest.raises(BadRequest, match="No space left"):
            case.register()
    case.gateway()

    assert case.register().is_alive


def test_note_that_cannot_be_written_at_the_end_ends_nothing_else(
    case: RemotesCase, monkeypatch: pytest.MonkeyPatch
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
