"""What the schedulers are told of how far runs are."""

from typing import Any, cast

from warren.broker.messages import Progress, Progressed
from warren.executor.lanes.reporting import (
    FIRST_SECONDS,
    PROGRESS_SECONDS,
    ProgressReports,
)
from warren.executor.messaging.outbox import Identity, Sender


class Case:
    """Progress reports with a clock of the test's."""

    identity = Identity(app="demo", address="one", boot_id="boot")

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[dict[int, float]] = []
        self.reports = ProgressReports(cast("Sender", self), lambda: self.now)

    def send(self, message: Progressed, **_options: Any) -> None:
        self.sent.append({run_id: one.done for run_id, one in message.runs.items()})

    def note(self, run_id: int, done: float) -> None:
        self.reports.note(run_id, Progress(done=done))

    def after(self, seconds: float) -> list[dict[int, float]]:
        """Let time pass; return what was sent since the last call."""
        self.now += seconds
        self.reports.send_due()
        sent, self.sent = self.sent, []
        return sent


def test_a_run_is_told_of_once_the_schedulers_know_that_it_runs() -> None:
    case = Case()
    case.note(7, 1)

    assert case.after(FIRST_SECONDS / 2) == []
    assert case.after(FIRST_SECONDS) == [{7: 1}]


def test_one_message_a_second_has_the_latest_of_all_that_changed() -> None:
    case = Case()
    for run_id in (7, 8):
        case.note(run_id, 1)
    case.after(FIRST_SECONDS)
    case.note(7, 2)
    case.note(7, 3)

    assert case.after(PROGRESS_SECONDS / 2) == []
    assert case.after(PROGRESS_SECONDS) == [{7: 3}]
    assert case.after(PROGRESS_SECONDS) == []


def test_a_run_that_has_ended_is_not_told_of() -> None:
    case = Case()
    case.note(7, 1)
    case.reports.forget(7)

    assert case.after(FIRST_SECONDS) == []
