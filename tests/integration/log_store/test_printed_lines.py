"""What runs write is printed as lines of JSON, if that is asked for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.support.eventually import eventually
from tests.support.upload_case import DAY_MS
from warren.broker.messages import Trigger
from warren.executor.log_uploads.printing import LogPrinter
from warren.executor.messaging.outbox import Identity
from warren.executor.run_logs import RunLogs


class Case:
    def __init__(self, folder: Path) -> None:
        self.run_logs = RunLogs(folder)
        self.printed = bytearray()
        self.is_open = True
        identity = Identity.checked("demo", "one")
        self.late: set[int] = set()
        self.printer = LogPrinter(
            identity, self.run_logs, self.late.__contains__, self._write, structlog.get_logger()
        )
        self.printer.start()

    def _write(self, lines: bytes) -> None:
        if not self.is_open:
            raise BrokenPipeError
        self.printed += lines

    def trigger(self, run_id: int) -> Trigger:
        return Trigger(
            run_id=run_id,
            job_id=7,
            boot_id="b",
            kind="API",
            handler="h",
            attempt=2,
            shard_index=1,
            shard_total=3,
            scheduled_at_ms=DAY_MS,
        )

    def write(self, run_id: int, text: bytes) -> None:
        path = Path(self.run_logs.path_of(DAY_MS, run_id))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(text)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in bytes(self.printed).splitlines()]

    def of(self, run_id: int) -> list[str]:
        return [line["line"] for line in self.lines if line["run"] == run_id]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path)
    yield case
    case.printer.close()


def test_each_line_says_whose_it_is(case: Case) -> None:
    case.printer.begin(case.trigger(5))

    case.write(5, "one\nzwei ü".encode())
    eventually(lambda: case.of(5) == ["one"])
    case.write(5, b" \xff\nthree")
    case.printer.end(case.trigger(5))

    eventually(lambda: case.of(5) == ["one", "zwei ü \ufffd", "three"])
    first = case.lines[0]
    assert first.pop("at").endswith("+00:00")
    assert first == {
        "app": "demo",
        "address": "one",
        "job": 7,
        "handler": "h",
        "run": 5,
        "attempt": 2,
        "shard": "1/3",
        "line": "one",
    }


def test_a_long_log_is_printed_whole_and_a_long_line_in_pieces(case: Case) -> None:
    lines = [f"line {number}" for number in range(100_000)]
    case.printer.begin(case.trigger(1))
    case.printer.begin(case.trigger(2))
    case.write(1, "\n".join(lines).encode())
    case.write(2, b"x" * 600_000 + b"\nend\n")

    case.printer.end(case.trigger(1))
    case.printer.end(case.trigger(2))

    eventually(lambda: case.of(1)[-1:] == [lines[-1]] and case.of(2)[-1:] == ["end"])
    assert case.of(1) == lines
    assert "".join(case.of(2)) == "x" * 600_000 + "end"


def test_a_log_that_comes_after_the_end_of_its_run_is_printed(case: Case) -> None:
    case.late.add(1)
    case.printer.begin(case.trigger(1))
    case.printer.end(case.trigger(1))
    case.printer.begin(case.trigger(2))
    case.write(2, b"another\n")
    eventually(lambda: case.of(2) == ["another"])

    case.write(1, b"late\n")
    case.late.clear()

    eventually(lambda: case.of(1) == ["late"])


def test_runs_that_write_nothing_print_nothing(case: Case) -> None:
    for run_id in (1, 2):
        case.printer.begin(case.trigger(run_id))
    case.write(2, b"a line\n")

    case.printer.end(case.trigger(1))
    case.printer.end(case.trigger(2))

    eventually(lambda: case.of(2) == ["a line"])
    assert case.of(1) == []


def test_a_closed_output_ends_it(case: Case) -> None:
    case.is_open = False
    case.printer.begin(case.trigger(1))

    case.write(1, b"a line\n")

    eventually(lambda: not case.printer._thread.is_alive())
