"""Signals as calls, and threads that die loudly in the log only."""

import io
import json
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from warren.logs import configure_logs
from warren.wiring.processes import Signals, log_thread_failures


def test_no_signal_is_a_wait_in_vain() -> None:
    with Signals() as signals:
        assert signals.wait(0.01) is False
        assert signals.count == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_wait_at_once(number: signal.Signals) -> None:
    with Signals() as signals:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
        timer.start()
        begun = time.monotonic()

        assert signals.wait(30.0) is True
        assert time.monotonic() - begun < 10.0
        timer.join()


def test_signal_before_the_wait_is_not_missed() -> None:
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)

        assert signals.wait(30.0) is True


def test_every_signal_counts() -> None:
    with Signals() as signals:
        for expected in (1, 2, 3):
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.wait(30.0) is True
            assert signals.count == expected


def test_storm_of_signals_blocks_nobody() -> None:
    with Signals() as signals:
        for _ in range(100_000):
            signal.raise_signal(signal.SIGTERM)

        assert signals.wait(0) is True


def test_what_was_there_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with Signals():
        assert signal.getsignal(signal.SIGTERM) != before

    assert signal.getsignal(signal.SIGTERM) == before


class TestThreads:
    @pytest.fixture(autouse=True)
    def restored(self) -> Iterator[None]:
        before = threading.excepthook
        yield
        threading.excepthook = before

    def test_what_a_thread_dies_of_is_logged(self, capsys: pytest.CaptureFixture[str]) -> None:
        stream = io.StringIO()
        configure_logs("info", stream)
        log_thread_failures()

        thread = threading.Thread(target=lambda: 1 / 0, name="planner")
        thread.start()
        thread.join()

        event = json.loads(stream.getvalue())
        assert (event["event"], event["thread"]) == ("thread_failed", "planner")
        assert "ZeroDivisionError" in event["exception"]
        assert capsys.readouterr().err == ""
