import asyncio
import selectors
from collections.abc import Callable, Iterator

import pytest

from warren.executor.agent import Shutdown
from warren.executor.boot_context import Limits


class ScriptedEnding:
    """Something that ends as told; `steps` keeps what was asked of it, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.is_working = False
        self.has_untaken = False
        self.has_unconfirmed = False
        self.has_processes = False
        self.is_storing_logs = False
        self.obeys_stop = True

    def begin_draining(self) -> None:
        self.steps.append("draining")

    def stop_runs(self) -> None:
        self.steps.append("stop runs" if self.is_working else "stop nothing")
        self.is_working = self.is_working and not self.obeys_stop

    def finish_taking(self) -> None:
        self.steps.append("finish taking")

    def stop_taking(self) -> None:
        self.steps.append("stop taking")

    def close(self) -> None:
        self.steps.append("close")


class Jump(selectors.SelectSelector):
    """Waits for nothing: the clock jumps to where the wait would have ended."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += max(timeout or 0.0, 0.0)
        return super().select(0)


class Case:
    def __init__(self) -> None:
        selector = Jump()
        self.loop = asyncio.SelectorEventLoop(selector)
        self.loop.time = lambda: selector.now  # type: ignore[method-assign]
        self.target = ScriptedEnding()
        self.shutdown = Shutdown(
            self.target,
            self.loop,
            Limits(
                slots=1,
                drain_seconds=0.2,
                grace_seconds=0.05,
                proof_seconds=0.1,
                report_seconds=0.15,
            ),
            on_over=self.loop.stop,
        )

    def run(self, *, hurry: bool = False, begin: Callable[[], None] | None = None) -> float:
        """Shut down and return the seconds it took."""
        begun_at = self.loop.time()
        self.loop.call_soon(begin or (lambda: self.shutdown.begin(hurry=hurry)))
        self.loop.call_later(5, self.loop.stop)
        self.loop.run_forever()
        return self.loop.time() - begun_at


ORDER = ["draining", "stop nothing", "finish taking", "stop taking", "close"]


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    yield case
    case.loop.close()


def test_idle_executor_ends_at_once_in_order(case: Case) -> None:
    assert case.run() < 0.2
    assert case.target.steps == ORDER


def test_running_job_may_end_by_itself_while_it_drains(case: Case) -> None:
    case.target.is_working = True
    case.loop.call_later(0.05, setattr, case.target, "is_working", False)

    assert 0.05 <= case.run() < 0.2
    assert case.target.steps == ORDER


def test_running_job_is_stopped_when_the_drain_is_over(case: Case) -> None:
    case.target.is_working = True

    assert case.run() >= 0.2
    assert case.target.steps[1] == "stop runs"


def test_hurry_stops_running_jobs_at_once(case: Case) -> None:
    case.target.is_working = True

    assert case.run(hurry=True) < 0.2
    assert case.target.steps[1] == "stop runs"


def test_second_call_with_hurry_ends_the_wait_and_repeats_no_step(case: Case) -> None:
    case.target.is_working = True
    case.loop.call_later(0.05, lambda: case.shutdown.begin(hurry=True))

    assert 0.05 <= case.run() < 0.2
    assert case.target.steps == ["draining", "stop runs", "finish taking", "stop taking", "close"]


def test_job_that_cannot_be_ended_does_not_hold_up_the_end_for_ever(case: Case) -> None:
    case.target.is_working = True
    case.target.obeys_stop = False

    seconds = case.run(hurry=True)

    assert 0.15 <= seconds < 1
    assert case.target.steps[-1] == "close"


def test_unsaid_reports_are_waited_for_but_not_for_ever(case: Case) -> None:
    case.target.has_unconfirmed = True

    assert 0.15 <= case.run() < 1
    assert case.target.steps == ORDER


def test_what_has_arrived_is_looked_at_before_the_intake_is_closed(case: Case) -> None:
    case.target.has_untaken = True
    steps_then: list[str] = []

    def look() -> None:
        steps_then.extend(case.target.steps)
        case.target.has_untaken = False

    case.loop.call_later(0.05, look)

    assert case.run() < 0.3
    assert steps_then[-1] == "finish taking"
    assert case.target.steps == ORDER


def test_an_intake_that_hangs_does_not_hold_up_the_end_for_ever(case: Case) -> None:
    case.target.has_untaken = True

    assert 0.15 <= case.run() < 1
    assert case.target.steps == ORDER


def test_processes_are_waited_for_after_the_intake_is_closed(case: Case) -> None:
    case.target.has_processes = True
    case.loop.call_later(0.05, setattr, case.target, "has_processes", False)

    assert case.run() >= 0.05
    assert case.target.steps == ORDER


def test_patient_end_waits_for_a_running_job_beyond_the_drain(case: Case) -> None:
    case.target.is_working = True
    case.loop.call_later(0.4, setattr, case.target, "is_working", False)

    assert case.run(begin=case.shutdown.begin_drain) >= 0.4
    assert case.target.steps == ORDER


def test_signal_during_a_patient_end_gives_the_drain_from_then_on(case: Case) -> None:
    case.target.is_working = True
    case.loop.call_later(0.1, lambda: case.shutdown.begin(hurry=False))

    assert 0.3 <= case.run(begin=case.shutdown.begin_drain) < 0.6
    assert case.target.steps == ["draining", "stop runs", "finish taking", "stop taking", "close"]


def test_wish_to_drain_after_a_signal_makes_nothing_longer(case: Case) -> None:
    case.target.is_working = True
    case.loop.call_later(0.05, case.shutdown.begin_drain)

    assert 0.2 <= case.run() < 0.4
    assert case.target.steps[1] == "stop runs"
