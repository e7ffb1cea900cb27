"""Remote slots: each run is started by one call at most, and ends once, whatever is answered."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.moved_loop import MovedLoop
from warren.broker.messages import Finished, NotStarted, Outcome, Trigger
from warren.broker.reasons import Why
from warren.executor.gateway.allow_list import AllowList
from warren.executor.gateway.protocol import Answer, CallFailed, NotSent, RemoteResult
from warren.executor.gateway.remote_logs import CLOSE_SECONDS
from warren.executor.gateway.remote_slots import (
    BEAT_SECONDS,
    NO_JOB,
    PROOF_BEATS,
    RemoteLimits,
    RemoteSlots,
)
from warren.executor.processes.interface import SlotEvents
from warren.executor.run_logs import RunLogs

URL = AllowList.parse("jobs").check("http://jobs:9999")
LIMITS = RemoteLimits(
    count=2,
    grace_seconds=0,
    script_languages=("shell",),
    timeout_margin_seconds=0.01,
    stop_margin_seconds=0.02,
    return_seconds=0.0,
    log_end_seconds=0.01,
)
#: The rest of a log is copied so late that a busy machine does nothing before its time.
PATIENT = replace(LIMITS, stop_margin_seconds=60, log_end_seconds=2)
OK, BUSY = Answer(200), Answer(500, "busy")


class Client:
    """Stands in for `RemoteClient`: answers, or raises, what a test has put here."""

    def __init__(self) -> None:
        self.url = URL
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, Answer | Exception] = {}
        self.busy: set[int] = set()
        self.lines: list[str] = []
        self.slow_logs: set[int] = set()
        #: Open while questions for idleness, and for slow logs, are answered.
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, order: dict[str, Any]) -> Answer:
        return await self._answer("run", order["logId"])

    async def kill(self, job_id: int) -> Answer:
        return await self._answer("kill", job_id)

    async def is_alive(self) -> bool:
        return (await self._answer("beat", None)).is_ok

    async def is_idle(self, job_id: int) -> bool:
        await self._answer("idleBeat", job_id)
        await self.gate.wait()
        return job_id not in self.busy

    async def log(self, request: dict[str, Any]) -> Answer:
        await self._answer("log", request["logId"])
        if request["logId"] in self.slow_logs:
            await self.gate.wait()
        lines = self.lines[request["fromLineNum"] - 1 :]
        return Answer(200, "", {"logContent": "".join(lines), "isEnd": True})

    async def close(self) -> None:
        self.calls.append(("close", None))

    def made(self, name: str) -> list[Any]:
        return [value for call, value in self.calls if call == name]

    async def _answer(self, name: str, value: Any) -> Answer:
        self.calls.append((name, value))
        await asyncio.sleep(0)
        answer = self.answers.get(name, OK)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Case:
    """Slots on a loop of their own, and what they reported."""

    def __init__(self, folder: Path, limits: RemoteLimits) -> None:
        self.loop = MovedLoop()
        self.client = Client()
        self.started: list[int] = []
        self.ended: list[Finished | NotStarted] = []
        self.is_watched = False
        self.slots = RemoteSlots(
            self.client,  # type: ignore[arg-type]
            limits,
            RunLogs(folder),
            loop=self.loop,
            events=SlotEvents(
                started=self.started.append,
                finished=self.finish,
                ready=lambda: None,
            ),
            script_folder=Path("unused"),
        )

    def finish(
        self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None = None
    ) -> None:
        self.ended.append(end)
        if on_recorded is not None:
            on_recorded()

    def until(self, check: Callable[[], object]) -> None:
        """Let the loop run until something is so."""

        async def wait() -> None:
            async with asyncio.timeout(10):
                while not check():  # noqa: ASYNC110 - the slots report to no event
                    await asyncio.sleep(0.001)

        self.do(wait())

    def settle(self) -> None:
        """Let everything happen that does not wait for time."""

        async def wait() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        self.do(wait())

    def close(self) -> None:
        """Close the slots as soon as the rest of each log is due."""
        closing = self.slots.close(0)
        self.settle()
        self.loop.skip(PATIENT.log_end_seconds)
        self.loop.run_until_complete(closing)

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(work)

    def start(self, run_id: int = 1, **fields: Any) -> None:
        self.slots.start(trigger(run_id, **fields))
        self.settle()

    def call_back(self, run_id: int, code: int = 200, text: str = "done") -> bool:
        recorded: list[bool] = []
        result = RemoteResult(run_id, code, text)
        self.slots.call_back(result, lambda: recorded.append(True))
        self.settle()
        return bool(recorded)

    def beat(self, *, after_seconds: float = PROOF_BEATS * BEAT_SECONDS) -> None:
        """Let so much time pass until the next beat that looks for proofs, or to the first beat."""
        if self.is_watched:
            for _ in range(PROOF_BEATS - 1):
                self.loop.skip(BEAT_SECONDS)
                after_seconds -= BEAT_SECONDS
                self.settle()
        self.loop.skip(after_seconds)
        if not self.is_watched:
            self.is_watched = True
            self.slots.open()
        self.settle()

    @property
    def begun_at_ms(self) -> list[int]:
        """When each ended run began, in epoch milliseconds, unless it never did."""
        ends = [end for end in self.ended if isinstance(end, Finished)]
        return [end.started_at_ms for end in ends if end.started_at_ms]

    @property
    def outcomes(self) -> list[tuple[Outcome, str]]:
        return [(end.outcome, end.message) for end in self.ended if isinstance(end, Finished)]


def trigger(run_id: int = 1, **fields: Any) -> Trigger:
    facts = {"run_id": run_id, "job_id": 10 * run_id, "boot_id": "b", "kind": "CRON"}
    return Trigger(**(facts | {"handler": "h", "scheduled_at_ms": 1} | fields))


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path, LIMITS)
    yield case
    case.close()
    case.loop.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path, PATIENT)
    yield case
    case.close()
    case.loop.close()


def test_run_is_started_by_one_call_and_ends_with_its_callback(case: Case) -> None:
    case.start()
    was_running = case.slots.has_run(1)

    assert case.call_back(1)

    assert was_running
    assert case.client.made("run") == [1]
    assert case.started == [1]
    assert case.outcomes == [(Outcome.SUCCEEDED, "done")]
    assert not case.slots.has_run(1)


def test_callback_that_overtakes_the_answer_ends_the_run_once(case: Case) -> None:
    case.slots.start(trigger())

    case.call_back(1)
    case.call_back(1, 500, "too late")

    assert case.outcomes == [(Outcome.SUCCEEDED, "done")]
    assert case.started == []


def test_callback_of_an_unknown_run_is_recorded_as_nothing(case: Case) -> None:
    assert case.call_back(99)
    assert case.ended == []


def test_refused_run_failed_with_the_words_of_the_executor(case: Case) -> None:
    case.client.answers["run"] = BUSY

    case.start()

    assert case.outcomes == [(Outcome.FAILED, "http://jobs:9999 refused it: busy")]
    assert case.started == []
    assert case.begun_at_ms == []


def test_refusal_without_words_names_its_code(case: Case) -> None:
    case.client.answers["run"] = Answer(501)

    case.start()

    assert case.outcomes == [(Outcome.FAILED, "http://jobs:9999 refused it: code 501")]


def test_call_that_did_not_arrive_started_nothing_and_keeps_others_away(case: Case) -> None:
    case.client.answers["run"] = NotSent("connection refused")

    case.start()

    [end] = case.ended
    assert isinstance(end, NotStarted)
    assert end.reason == "cannot reach http://jobs:9999: connection refused"
    assert case.slots.away == Why.REMOTE_SILENT(url="http://jobs:9999")
    assert case.slots.free == 0
    case.beat()
    assert case.slots.free == 2


def test_unanswered_start_counts_as_running_and_is_not_repeated(case: Case) -> None:
    case.client.answers["run"] = CallFailed("no answer: reset")

    case.start()
    case.beat()

    assert case.client.made("run") == [1]
    assert case.started == [1]
    assert case.slots.has_run(1)
    case.call_back(1)
    assert case.outcomes == [(Outcome.SUCCEEDED, "done")]


class TestStops:
    def test_killed_run_is_told_and_its_callback_says_when(self, patient: Case) -> None:
        patient.start()

        patient.slots.stop(1, Why.KILL_REQUESTED())
        patient.settle()
        patient.call_back(1, 500, "CancelledError")

        assert patient.client.made("kill") == [10]
        assert patient.outcomes == [(Outcome.KILLED, "killed by request")]

    def test_success_that_was_faster_counts(self, case: Case) -> None:
        case.start()

        case.slots.stop(1, Why.KILL_REQUESTED())
        case.call_back(1)

        assert case.outcomes == [(Outcome.SUCCEEDED, "done")]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (OK, "killed by request; told to stop, but whether it ended is unknown"),
            (CallFailed("no answer"), "cannot be told to stop: no answer; whether it ended"),
            (Answer(500, "no such run"), "cannot be told to stop: no such run; whether it ended"),
        ],
    )
    def test_run_that_does_not_call_back_is_given_up(
        self, case: Case, answer: Answer | Exception, words: str
    ) -> None:
        case.client.answers["kill"] = answer
        case.start()

        case.slots.stop(1, Why.KILL_REQUESTED())
        case.until(lambda: case.ended)

        [(outcome, message)] = case.outcomes
        assert outcome is Outcome.KILLED
        assert words in message

    def test_run_that_is_stopped_while_it_starts_is_told_afterwards(self, case: Case) -> None:
        case.slots.start(trigger())
        case.slots.stop(1, Why.KILL_REQUESTED())
        case.settle()

        assert [name for name, _ in case.client.calls if name in ("run", "kill")] == ["run", "kill"]

    def test_run_is_stopped_from_here_when_its_executor_does_not(self, case: Case) -> None:
        case.start(timeout_seconds=0.01)

        case.until(lambda: case.ended)

        assert case.client.made("kill") == [10]
        [(outcome, message)] = case.outcomes
        assert outcome is Outcome.TIMED_OUT
        assert message.startswith("timed out after 0.01 s; told to stop")

    @pytest.mark.parametrize("call", ["run", "kill"])
    def test_run_whose_executor_breaks_a_call_can_be_killed(self, case: Case, call: str) -> None:
        case.client.answers[call] = RecursionError("nested too deep")
        case.start()

        case.slots.stop(1, Why.KILL_REQUESTED())
        case.until(lambda: case.ended)

        assert case.client.made("kill") == [10]
        assert case.outcomes[0][0] is Outcome.KILLED


class TestProofs:
    def test_busy_executor_proves_that_its_run_goes_on(self, case: Case) -> None:
        case.client.busy = {10}
        case.start()

        case.beat(after_seconds=121)

        assert case.ended == []
        assert case.client.made("idleBeat") == [NO_JOB, 10]

    def test_idle_executor_has_lost_its_run_after_a_time(self, case: Case) -> None:
        case.start()
        case.beat(after_seconds=10)
        was_lost = bool(case.ended)

        case.beat(after_seconds=111)

        assert not was_lost
        assert case.outcomes[0][0] is Outcome.LOST

    def test_silent_executor_has_lost_its_run_after_a_time(self, case: Case) -> None:
        case.client.answers["beat"] = NotSent("connection refused")
        case.start()

        case.beat(after_seconds=121)

        assert case.outcomes[0][0] is Outcome.LOST

    def test_executor_that_is_busy_with_everything_is_believed_alive_only(self, case: Case) -> None:
        case.client.busy = {NO_JOB}
        case.start()

        case.beat(after_seconds=121)

        assert case.ended == []
        assert case.client.made("idleBeat") == [NO_JOB]

    def test_busy_job_proves_no_run_that_a_later_one_has_passed(self, case: Case) -> None:
        case.client.busy = {10}
        case.slots.resume(trigger(1, job_id=10), 5, 9.0)
        case.start(2, job_id=10)
        case.call_back(2)

        case.beat(after_seconds=121)

        assert [outcome for outcome, _ in case.outcomes] == [Outcome.SUCCEEDED, Outcome.LOST]


def test_run_that_ends_while_it_is_being_proved_harms_no_other_proof(case: Case) -> None:
    case.start(1)
    case.start(2)
    case.beat()
    case.client.gate.clear()
    case.beat(after_seconds=121)
    assert case.client.made("idleBeat") == [NO_JOB, 10, 20, 10, 20]
    copies = case.client.made("log").count(1)

    case.call_back(1)
    case.until(lambda: case.client.made("log").count(1) > copies)
    case.settle()  # now nothing is left of the run
    with capture_logs() as events:
        case.client.gate.set()
        case.settle()

    assert sorted(outcome for outcome, _ in case.outcomes) == [Outcome.LOST, Outcome.SUCCEEDED]
    assert events == []


def test_resumed_run_is_not_started_again(case: Case) -> None:
    case.slots.resume(trigger(), 5, 9.0)
    case.settle()

    case.call_back(1)

    assert case.client.made("run") == []
    assert case.outcomes == [(Outcome.SUCCEEDED, "done")]


def test_script_is_sent_if_its_language_is_allowed(case: Case) -> None:
    case.start(1, handler="", script_language="shell", script_source="echo")
    case.start(2, handler="", script_language="python", script_source="print()")

    assert case.client.made("run") == [1]
    assert case.outcomes == [
        (
            Outcome.FAILED,
            (
                "python scripts are not sent to http://jobs:9999: "
                "WARREN_GLUE does not list that language"
            ),
        )
    ]
    assert case.begun_at_ms == []


def test_executor_is_unneeded_when_it_stays_away_and_nothing_of_it_is_left(case: Case) -> None:
    case.start()

    case.slots.sign_off()

    seen = case.slots.is_unneeded
    case.call_back(1)
    assert (seen, case.slots.is_unneeded) == (False, True)
    case.slots.register()
    assert not case.slots.is_unneeded


class TestLogs:
    def text(self, tmp_path: Path) -> str:
        path = tmp_path / "1970-01-01/1.log"
        return path.read_text() if path.exists() else ""

    def test_log_of_a_running_run_is_copied_before_it_is_read(
        self, case: Case, tmp_path: Path
    ) -> None:
        case.client.lines = ["one\n", "tw"]
        case.start()
        seen: list[str] = []

        async def read() -> None:
            case.slots.refresh_log(1, lambda: seen.append(self.text(tmp_path)))

        case.do(read())
        case.until(lambda: seen)

        assert seen == ["one\n"]

    def test_rest_is_copied_after_the_end(self, patient: Case, tmp_path: Path) -> None:
        patient.client.lines = ["one\n"]
        patient.start()
        patient.beat()
        patient.until(lambda: self.text(tmp_path))
        patient.call_back(1)
        patient.client.lines.append("two\n")

        patient.loop.skip(PATIENT.log_end_seconds)
        patient.until(lambda: self.text(tmp_path) == "one\ntwo\n")

        [end] = patient.ended
        assert isinstance(end, Finished)
        assert end.log_tail == "one\n"

    def test_log_of_an_ended_run_is_late_until_its_rest_is_copied(
        self, case: Case, tmp_path: Path
    ) -> None:
        case.client.lines = ["one\n"]
        case.client.slow_logs = {1}
        case.client.gate.clear()
        case.start()
        told = [case.slots.has_late_log(1)]
        case.call_back(1)
        case.until(lambda: case.client.made("log"))
        told.append(case.slots.has_late_log(1))
        case.client.gate.set()

        case.until(lambda: not case.slots.has_late_log(1))

        assert told == [False, True]
        assert self.text(tmp_path) == "one\n"

    def test_rest_is_copied_before_the_slots_are_closed(
        self, patient: Case, tmp_path: Path
    ) -> None:
        patient.client.lines = ["one\n", "two\n"]
        patient.start()
        patient.call_back(1)
        before = self.text(tmp_path)

        patient.close()

        assert (before, self.text(tmp_path)) == ("", "one\ntwo\n")

    def test_log_that_is_slow_keeps_the_slots_open_for_seconds_only(self, case: Case) -> None:
        case.client.slow_logs = {1}
        case.client.gate.clear()
        case.start()
        case.call_back(1)
        case.until(lambda: case.client.made("log"))

        closed = case.slots.close(0)
        case.settle()
        case.loop.skip(CLOSE_SECONDS)
        case.settle()

        assert closed.done()

    def test_log_that_is_slow_delays_no_other(self, case: Case, tmp_path: Path) -> None:
        case.client.lines = ["one\n"]
        case.client.slow_logs = {1}
        case.client.gate.clear()
        case.start(1)
        case.start(2)

        async def read() -> None:
            for run_id in (*[1] * 20, 2):
                case.slots.refresh_log(run_id, lambda: None)

        case.do(read())
        case.until((tmp_path / "1970-01-01/2.log").exists)

        assert sorted(case.client.made("log")) == [1, 2]
        case.client.gate.set()

    def test_log_that_is_not_given_keeps_no_reader_waiting(self, case: Case) -> None:
        case.client.answers["log"] = CallFailed("no answer")
        case.start()
        seen: list[int] = []

        async def read() -> None:
            for run_id in (1, 99):
                case.slots.refresh_log(run_id, partial(seen.append, run_id))

        case.do(read())

        case.until(lambda: len(seen) == 2)
