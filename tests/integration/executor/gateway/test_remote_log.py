"""The log of a remote run is copied line by line, each once, whatever its executor says of it."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from warren.broker.messages import Trigger
from warren.executor.gateway import remote_logs
from warren.executor.gateway.protocol import Answer, CallFailed
from warren.executor.gateway.remote_logs import RemoteLog, RemoteLogs
from warren.executor.run_logs import RunLogs

TRIGGER = Trigger(
    run_id=7, job_id=1, boot_id="b", kind="CRON", handler="h", scheduled_at_ms=0, routed_at_ms=5
)


class Client:
    """Stands in for `RemoteClient`: has a log, and gives `most` lines of it at a time."""

    def __init__(self, most: int = 1_000) -> None:
        self.lines: list[str] = []
        self.most = most
        self.asked: list[int] = []
        self.answer: Callable[[int], Answer] = self.give

    async def log(self, request: dict[str, Any]) -> Answer:
        assert (request["logId"], request["logDateTim"], request["logDateTime"]) == (7, 5, 5)
        self.asked.append(request["fromLineNum"])
        return self.answer(request["fromLineNum"])

    def give(self, first: int) -> Answer:
        some = self.lines[first - 1 : first - 1 + self.most]
        is_end = first - 1 + self.most >= len(self.lines)
        content = {"fromLineNum": first, "toLineNum": first, "logContent": "".join(some)}
        return Answer(200, "", content | {"isEnd": is_end})


class Case:
    def __init__(self, folder: Path) -> None:
        self.client = Client()
        self.run_logs = RunLogs(folder, cap_bytes=1_000)
        self.path = Path(self.run_logs.path_of(0, 7))
        self.renew()

    def renew(self) -> None:
        """Go on as another process does."""
        self.log = RemoteLog(TRIGGER, self.client, self.run_logs, is_resumed=True)  # type: ignore[arg-type]

    def copy(self, *, is_over: bool = True) -> str:
        asyncio.run(self.log.copy(is_over=is_over))
        return self.path.read_text() if self.path.exists() else ""


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path / "logs")


def test_each_line_is_copied_once_over_several_answers_copies_and_processes(case: Case) -> None:
    case.client.most = 2
    case.client.lines = [f"{number}\n" for number in range(5)]
    first = case.copy()
    case.client.lines += ["5\n", "6\n"]
    case.renew()

    text = case.copy()

    assert first == "0\n1\n2\n3\n4\n"
    assert text == "0\n1\n2\n3\n4\n5\n6\n"
    assert case.client.asked == [1, 3, 5, 6]


def test_line_that_is_still_written_is_left_for_later(case: Case) -> None:
    case.client.lines = ["one\n", "tw"]
    early = case.copy(is_over=False)
    case.client.lines = ["one\n", "two"]

    assert early == "one\n"
    assert case.copy() == "one\n"  # as the executor's word that there is no more
    case.client.lines = ["one\n", "two\n", "three"]
    assert case.copy() == "one\ntwo\nthree\n"


def test_log_is_not_copied_twice_within_three_seconds(case: Case) -> None:
    async def copy_twice() -> None:
        for _ in range(2):
            await case.log.copy(is_over=False)

    asyncio.run(copy_twice())

    assert case.client.asked == [1]


def fail(_first: int) -> Answer:
    raise CallFailed("no answer")


@pytest.mark.parametrize(
    "answer",
    [
        fail,
        lambda _: Answer(500, "no such log"),
        lambda _: Answer(200, "", None),
        lambda _: Answer(200, "", "text"),
        lambda _: Answer(200, "", {"logContent": None}),
        lambda _: Answer(200, "", {"logContent": 5}),
        lambda _: Answer(200, "", {"logContent": ""}),
        lambda _: Answer(200, "", {"logContent": "No such log."}),
    ],
)
def test_what_is_no_log_is_not_copied(case: Case, answer: Callable[[int], Answer]) -> None:
    case.client.answer = answer

    assert case.copy() == ""
    assert case.client.asked == [1]


def test_disk_without_room_is_why_lines_are_missing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.client.lines = ["one\n"]
    monkeypatch.setattr(case.run_logs, "shortfall", lambda: 1)

    assert asyncio.run(case.log.copy(is_over=True)) == "the disk has no room for it"


def test_lines_of_an_answer_that_was_too_large_are_followed_by_the_next_ones(case: Case) -> None:
    case.client.lines = [f"{number}\n" for number in range(5)]

    def cut(first: int) -> Answer:
        if first > 3:
            return case.client.give(first)
        return Answer(
            200,
            "",
            {"logContent": "".join(case.client.lines[first - 1 : first + 1]), "isCut": True},
        )

    case.client.answer = cut

    assert case.copy() == "0\n1\n2\n3\n4\n"


def test_line_that_is_too_long_for_an_answer_is_marked(case: Case) -> None:
    case.client.answer = lambda first: (
        Answer(200, "", {"logContent": "x" * 9, "isCut": True})
        if first == 1
        else Answer(200, "", {"logContent": "next\n" if first == 2 else ""})
    )

    assert case.copy() == (
        "xxxxxxxxx … [line cut: its executor sends too much of it at once]\nnext\n"
    )


class TestEnd:
    """The rest of the log after the end of a run."""

    def copy_rest(self, case: Case, *, close: bool = False) -> str:
        async def copy() -> None:
            loop = asyncio.get_running_loop()
            logs = RemoteLogs(
                loop,
                case.client,  # type: ignore[arg-type]
                case.run_logs,
                end_seconds=0,
                retry_seconds=(60,) if close else (0.01, 0.01),
                close_seconds=0.01,
            )
            logs.begin(TRIGGER, is_resumed=False)
            logs.finish(7)
            while not close and logs.is_late(7):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            await logs.close()

        asyncio.run(copy())
        return case.path.read_text()

    def test_is_tried_again_until_its_executor_has_no_more(self, case: Case) -> None:
        case.client.lines, case.client.most = [f"{number}\n" for number in range(4)], 2
        failures = [3]

        def flaky(first: int) -> Answer:
            if first in failures:
                failures.remove(first)
                raise CallFailed("no answer")
            return case.client.give(first)

        case.client.answer = flaky

        assert self.copy_rest(case) == "0\n1\n2\n3\n"

    def test_that_cannot_be_had_is_named_in_the_log(self, case: Case) -> None:
        case.client.answer = lambda first: (
            fail(first) if first > 1 else Answer(200, "", {"logContent": "one\n"})
        )

        with capture_logs() as logged:
            text = self.copy_rest(case)

        assert text == "one\n… [the rest of the log is not here: no answer]\n"
        named = [(line["event"], line["run_id"], line["why"]) for line in logged]
        assert named == [("remote_log_missed", 7, "no answer")]

    def test_that_the_gateway_does_not_wait_for_is_named_in_the_log(self, case: Case) -> None:
        case.client.answer = fail

        text = self.copy_rest(case, close=True)

        assert text == "… [the rest of the log is not here: no answer]\n"


def test_log_without_an_end_is_cut(case: Case) -> None:
    case.client.answer = lambda _: Answer(200, "", {"logContent": "again\n" * 100})

    text = case.copy()

    assert "the log is cut here" in text
    assert len(text) <= 1_000
    assert len(case.client.asked) < remote_logs.CALL_LIMIT


def test_fifo_in_a_logs_place_is_an_error_and_not_waited_for(case: Case) -> None:
    case.client.lines = ["one\n"]
    case.path.parent.mkdir(parents=True)
    os.mkfifo(case.path)

    with pytest.raises(OSError, match="Not a regular file"):
        asyncio.run(case.log.copy(is_over=True))
