"""Two gateways: wherever an executor registers and reports, nothing of its runs is lost."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.support.moved_loop import MovedLoop
from tests.support.ports import free_port
from tests.support.remotes_case import TOKEN, URL, FakeExecutor, RemotesCase
from warren.broker.signing import AppKeys
from warren.executor.gateway.allow_list import AccessTokens
from warren.executor.gateway.gateway import Server
from warren.executor.gateway.peers import PASSED_ON_HEADER, SIGNATURE_HEADER, Peers, Signatures
from warren.executor.gateway.protocol import BadRequest, NotRecorded, RemoteResult
from warren.executor.gateway.remotes import BEQUEST_SECONDS, RETRY_SECONDS

KEY = "k" * 32


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of."""
    while not is_so():  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.01)


class Gateways:
    """Two gateways that know each other, with real HTTP between them, on one event loop."""

    def __init__(self, folder: Path) -> None:
        self.loop = MovedLoop()
        self.ports = (free_port(), free_port())
        self._held = AsyncExitStack()
        self.signatures = [Signatures({"demo": AppKeys("demo", KEY)}) for _ in self.ports]
        self.cases = [RemotesCase(folder / str(port), self.loop) for port in self.ports]
        self.runners: list[web.AppRunner] = []
        self.peers: list[Peers] = []
        for number, case in enumerate(self.cases):
            other = f"http://127.0.0.1:{self.ports[1 - number]}"
            case.peers = Peers((other,), {"demo": TOKEN}, self.signatures[number])
            self.peers.append(case.peers)
            case.gateway()
            self.do(self._serve(number))

    @property
    def first(self) -> RemotesCase:
        return self.cases[0]

    @property
    def second(self) -> RemotesCase:
        return self.cases[1]

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def stop_serving(self, number: int) -> None:
        self.do(self.runners[number].cleanup())

    def begin_end_of_first(self, executor: FakeExecutor) -> None:
        """Let the first gateway be told to end, and its executor have ended."""

        async def end() -> None:
            self.first.remotes.close(hurry=False)
            await until(lambda: bool(executor.was_told))
            executor.end(clean=False)
            self.first.remotes.run_round()

        self.do(end())

    def replace(self, executor: FakeExecutor) -> None:
        """Let an executor of the first gateway be told that another boot has its address."""
        executor.was_refused = executor.was_replaced = True
        executor.end(clean=False)

        async def replace() -> None:
            self.first.remotes.run_round()

        self.do(replace())

    def let_bequeath(self, seconds: float = math.inf) -> None:
        """Let time pass while the first gateway offers a journal, at most this long."""

        async def let() -> None:
            until = self.loop.time() + seconds
            while not self.first.remotes.is_empty and self.loop.time() < until:
                self.loop.skip(BEQUEST_SECONDS / 10)
                await asyncio.sleep(0.01)

        self.do(let())

    def serve_again(self, number: int) -> None:
        """Let a gateway that stopped serving do so again."""
        self.do(self._serve(number))

    def end_first(self, executor: FakeExecutor) -> None:
        """Let the first gateway end."""
        self.begin_end_of_first(executor)
        self.do(until(lambda: self.first.remotes.is_empty))

    def call(self, port: int, name: str, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        async def call() -> dict[str, Any]:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"http://127.0.0.1:{port}/api/{name}",
                    data=body,
                    headers={"XXL-JOB-ACCESS-TOKEN": TOKEN, PASSED_ON_HEADER: "1", **headers},
                ) as response,
            ):
                found: dict[str, Any] = await response.json()
                return found

        found: dict[str, Any] = self.do(call())
        return found

    def close(self) -> None:
        for case in self.cases:
            case.close_executors()
        for peers in self.peers:
            self.do(peers.close())
        for runner in self.runners:
            self.do(runner.cleanup())
        self.first.close()

    async def _serve(self, number: int) -> None:
        server = Server(
            AccessTokens.parse(f"demo: {TOKEN}"),
            self.cases[number].remotes,
            self.signatures[number],
            body_seconds=5,
        )
        runner = web.AppRunner(server.application())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.ports[number]).start()
        self.runners.append(runner)


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Gateways]:
    gateways = Gateways(tmp_path)
    yield gateways
    gateways.close()


def test_executor_that_registers_at_another_gateway_stays_where_it_is(gateways: Gateways) -> None:
    executor = gateways.first.register()
    executor.slots.sign_off()

    gateways.do(gateways.second.remotes.register("demo", URL))
    gateways.do(gateways.second.remotes.register("demo", URL))

    assert gateways.second.executors == []
    gateways.do(asyncio.sleep(0))
    assert executor.slots.away is None


def test_executor_that_was_drained_at_one_gateway_is_not_served_by_the_other(
    gateways: Gateways,
) -> None:
    executor = gateways.first.register()
    executor.was_drained = True
    executor.end(clean=True)
    gateways.first.remotes.run_round()

    gateways.do(gateways.second.remotes.register("demo", URL))

    assert gateways.second.executors == []


def test_executor_of_a_gateway_that_is_gone_is_served_by_the_other(gateways: Gateways) -> None:
    gateways.first.register()
    gateways.stop_serving(0)

    assert gateways.second.register().is_alive


def test_sign_off_at_another_gateway_counts(gateways: Gateways) -> None:
    executor = gateways.first.register()

    gateways.do(gateways.second.remotes.sign_off("demo", URL))
    gateways.do(asyncio.sleep(0))

    assert executor.slots.away is not None


def test_result_that_another_gateway_is_told_reaches_its_run(gateways: Gateways) -> None:
    executor = gateways.first.register()
    gateways.first.run()

    gateways.second.call_back()

    assert [end.run_id for end in executor.ended] == [1]


def test_result_that_no_gateway_knows_comes_again(gateways: Gateways) -> None:
    executor = gateways.first.register()
    gateways.first.run()
    results = [RemoteResult(run_id, 200, "done") for run_id in (1, 99)]

    with pytest.raises(NotRecorded):
        gateways.do(gateways.second.remotes.call_back(["demo"], results))

    assert [end.run_id for end in executor.ended] == [1]


def test_result_that_the_other_gateway_cannot_record_comes_again(gateways: Gateways) -> None:
    gateways.first.register()
    gateways.first.run()
    gateways.first.records = False

    with pytest.raises(NotRecorded):
        gateways.second.call_back()


def test_gateway_that_ends_hands_its_executors_over_with_their_runs(gateways: Gateways) -> None:
    executor = gateways.first.register()
    gateways.first.run()
    executor.folder.journal_path.write_bytes(b"what was started\n" * 1000)

    gateways.end_first(executor)

    assert executor.was_told == ["hurry"]
    [heir] = gateways.second.executors
    assert heir.identity == executor.identity
    assert heir.folder.journal_path.read_bytes() == b"what was started\n" * 1000
    assert not executor.folder.journal_path.exists()
    assert gateways.first.restored() == []


class TestReturn:
    """A gateway is back whose executor another one has taken over."""

    @pytest.fixture
    def executor(self, gateways: Gateways) -> FakeExecutor:
        """It is at the first gateway, which did not answer when it registered at the second."""
        executor = gateways.first.register()
        executor.folder.journal_path.write_bytes(b"what was started\n" * 1000)
        gateways.stop_serving(0)
        gateways.second.register()
        return executor

    def test_its_journal_goes_to_the_other_one(
        self, gateways: Gateways, executor: FakeExecutor
    ) -> None:
        gateways.replace(executor)
        gateways.let_bequeath()

        assert gateways.second.executors[0].adopted == [b"what was started\n" * 1000]
        assert not executor.folder.journal_path.exists()
        assert gateways.first.restored() == []

    def test_its_journal_stays_if_the_other_one_is_gone(
        self, gateways: Gateways, executor: FakeExecutor
    ) -> None:
        gateways.stop_serving(1)

        with capture_logs() as events:
            gateways.replace(executor)
            gateways.let_bequeath()

        assert executor.folder.journal_path.exists()
        assert "remote_not_bequeathed" in [event["event"] for event in events]

    def test_its_journal_goes_to_the_other_one_once_that_is_back(
        self, gateways: Gateways, executor: FakeExecutor
    ) -> None:
        gateways.stop_serving(1)
        gateways.replace(executor)
        gateways.let_bequeath(6 * BEQUEST_SECONDS)

        gateways.serve_again(1)
        gateways.let_bequeath()

        assert len(gateways.second.executors[0].adopted) == 1
        assert not executor.folder.journal_path.exists()

    def test_it_goes_on_itself_if_its_executor_comes_back_and_the_other_one_is_gone(
        self, gateways: Gateways, executor: FakeExecutor
    ) -> None:
        gateways.stop_serving(1)
        gateways.replace(executor)

        gateways.let_bequeath(6 * BEQUEST_SECONDS)

        successor = gateways.first.register()
        gateways.serve_again(1)
        gateways.let_bequeath(6 * BEQUEST_SECONDS)

        assert successor is not executor
        assert gateways.second.executors[0].adopted == []
        assert executor.folder.journal_path.exists()

    def test_its_journal_is_refused_by_one_that_does_not_serve_it(
        self, gateways: Gateways, executor: FakeExecutor
    ) -> None:
        gateways.second.executors[0].is_taking = False

        gateways.replace(executor)
        gateways.let_bequeath()

        assert gateways.second.executors[0].adopted == []
        assert executor.folder.journal_path.exists()


def test_executor_that_registers_while_it_is_handed_over_is_not_started_again(
    gateways: Gateways,
) -> None:
    executor = gateways.first.register()
    gateways.begin_end_of_first(executor)

    gateways.do(gateways.second.remotes.register("demo", URL))

    gateways.do(until(lambda: gateways.first.remotes.is_empty))
    assert [heir.identity for heir in gateways.second.executors] == [executor.identity]


def test_gateway_that_ends_alone_lets_runs_end_and_leaves_them_to_its_next_start(
    gateways: Gateways,
) -> None:
    executor = gateways.first.register()
    gateways.stop_serving(1)

    gateways.end_first(executor)

    assert executor.was_told == ["stop"]
    gateways.first.peers = None
    assert gateways.first.restored() == [executor.identity.boot_id]


def test_gateway_keeps_what_the_other_one_cannot_take(gateways: Gateways) -> None:
    executor = gateways.first.register()
    gateways.second.unusable.add("jobs:9999")
    gateways.second._make = fail  # type: ignore[method-assign]
    gateways.second.gateway()

    gateways.end_first(executor)

    gateways.first.peers = None
    assert gateways.first.restored() == [executor.identity.boot_id]


def fail(**_: object) -> Any:
    raise OSError("no space left")


@pytest.mark.parametrize("fault", ["", "0,00", "x,00", "other key", "old"])
def test_handover_counts_only_with_the_signature_of_its_app(
    gateways: Gateways, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = msgspec.json.encode({"app": "demo", "note": {"url": URL, "boot_id": "b1"}})
    signature = fault
    if fault == "other key":
        signature = Signatures({"demo": AppKeys("demo", "o" * 32)}).sign("demo", body)
    if fault == "old":
        with monkeypatch.context() as past:
            past.setattr(time, "time", lambda: 1.0)
            signature = gateways.signatures[0].sign("demo", body)

    answer = gateways.call(gateways.ports[1], "handover", body, {SIGNATURE_HEADER: signature})

    assert answer["code"] == 500
    assert gateways.second.executors == []


def test_handover_counts_once(gateways: Gateways) -> None:
    body = msgspec.json.encode({"app": "demo", "note": {"url": URL, "boot_id": "b1"}})
    headers = {SIGNATURE_HEADER: gateways.signatures[0].sign("demo", body)}
    first = gateways.call(gateways.ports[1], "handover", body, headers)
    gateways.second.executors[0].end(clean=True)
    gateways.second.remotes.run_round()

    again = gateways.call(gateways.ports[1], "handover", body, headers)

    assert (first["code"], again["code"]) == (200, 500)


@pytest.mark.parametrize("journal", ["AAAA", ""])
def test_handover_that_cannot_be_read_is_refused(gateways: Gateways, journal: str) -> None:
    body = json.dumps({"app": "demo", "note": {"url": "ftp://elsewhere"}, "journal": journal})
    headers = {SIGNATURE_HEADER: gateways.signatures[0].sign("demo", body.encode())}

    answer = gateways.call(gateways.ports[1], "handover", body.encode(), headers)

    assert answer["code"] == 500


def test_executor_that_another_gateway_still_has_is_sent_there_and_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = RemotesCase(tmp_path)
    executor = case.register()
    executor.was_refused, executor.failure = True, "its address is in use"
    executor.end(clean=False)
    case.remotes.run_round()

    with pytest.raises(BadRequest, match="in use"):
        case.register()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + RETRY_SECONDS)

    async def retry() -> None:
        case.remotes.run_round()
        await until(lambda: any(other.is_alive for other in case.executors))

    case.do(retry())
    assert len(case.executors) == 2
    case.close()


def test_gateway_that_does_not_answer_is_told_once() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def ask_twice() -> None:
        peers = Peers([url], {"demo": TOKEN}, Signatures({}))
        for _ in range(2):
            assert not await peers.register("demo", "http://127.0.0.1:9999", "demo")
        await peers.close()

    with capture_logs() as logs:
        asyncio.run(ask_twice())

    assert [(line["event"], line["log_level"], line["url"]) for line in logs] == [
        ("peer_missed", "warning", url)
    ]
