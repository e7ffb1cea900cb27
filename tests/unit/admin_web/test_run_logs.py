"""Logs are read from executors that have them, within limits; their lines are text and colours."""

import io
import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.support.eventually import eventually
from warren.admin_web.run_logs import (
    AT_A_TIME,
    OF_ONE,
    PAUSE_SECONDS,
    LogReader,
    ReadStatus,
    Source,
    in_zone,
    pieces,
    without_time,
)
from warren.broker.log_blocks import pack
from warren.broker.messages import LogChunk, ReadLog
from warren.broker.rpc import AddressedQuestion, Requester
from warren.scheduler.log_store.store import StoredLogs, StoreUnavailable
from warren.sql.runs.stored_logs import LogRow


class Executors:
    """Stands where a requester does; answers when `gate` is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[ReadLog] = []
        self.text = "one\ntwo"
        self.values: dict[str, Any] = {}
        self.is_silent = False

    def ask(self, questions: Sequence[AddressedQuestion], _timeout: float) -> list[LogChunk | None]:
        (_, address, boot_id), build = questions[0]
        question = cast("ReadLog", build("q", "answer.console"))
        self.asked.append(question)
        assert self.gate.wait(30)
        if self.is_silent:
            return [None]
        if "://" in address:
            raise ValueError("no address")
        facts = {
            "question_id": "q",
            "address": address,
            "boot_id": boot_id,
            "run_id": question.run_id,
            "from_line": question.from_line,
            "to_line": question.from_line + self.text.count("\n"),
            "text": self.text,
            "is_end": True,
        }
        return [LogChunk(**facts | self.values)]


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def executors() -> Executors:
    return Executors()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def reader(executors: Executors, time: Time) -> LogReader:
    return LogReader(cast("Requester", executors), time)


def source(address: str = "one", **values: Any) -> Source:
    facts = {"run_id": 7, "app": "demo", "boot_id": "b", "scheduled_at_ms": 1_800_000_000_000}
    return Source(address=address, heard_at_ms=0, **facts | values)


def test_lines_come_with_their_numbers(reader: LogReader, executors: Executors) -> None:
    part = reader.read(source(), 5, limit=100)

    assert (part.status, part.lines) == (ReadStatus.LINES, ("one", "two"))
    assert (part.from_line, part.next_line, part.is_end) == (5, 7, True)
    assert executors.asked[0].scheduled_day == "2027-01-15"


def test_no_more_lines_are_believed_than_were_asked_for(
    reader: LogReader, executors: Executors
) -> None:
    executors.text = "\n" * 100_000
    executors.values = {"times": ((1, 1),) * 100_000}

    part = reader.read(source(), 1, limit=100)

    assert (len(part.lines), part.next_line, part.is_end) == (100, 101, False)
    assert len(part.times) == 100


def test_no_line_is_none_and_not_an_empty_one(reader: LogReader, executors: Executors) -> None:
    executors.values = {"text": "", "to_line": 4}

    part = reader.read(source(), 5, limit=100)

    assert (part.lines, part.next_line) == ((), 5)


def test_an_answer_about_another_run_counts_as_none(
    reader: LogReader, executors: Executors
) -> None:
    executors.values = {"run_id": 8}

    assert reader.read(source(), 1, limit=100).status is ReadStatus.SILENT


def test_what_the_executor_has_no_longer_is_missing(
    reader: LogReader, executors: Executors
) -> None:
    executors.values = {"missing": True}

    assert reader.read(source(), 1, limit=100).status is ReadStatus.MISSING


@pytest.mark.parametrize("values", [{"boot_id": ""}, {"address": "http://10.0.0.1:9999/"}])
def test_who_cannot_be_asked_is_silent(reader: LogReader, values: dict[str, str]) -> None:
    assert reader.read(source(**values), 1, limit=100).status is ReadStatus.SILENT


def test_without_a_broker_every_executor_is_silent() -> None:
    assert LogReader(None).read(source(), 1, limit=100).status is ReadStatus.SILENT


def test_a_silent_executor_is_left_alone_for_a_while_and_no_other(
    reader: LogReader, executors: Executors, time: Time
) -> None:
    executors.is_silent = True
    reader.read(source(), 1, limit=100)
    executors.is_silent = False

    again = reader.read(source(), 1, limit=100)
    other = reader.read(source("two"), 1, limit=100)

    assert (again.status, other.status) == (ReadStatus.SILENT, ReadStatus.LINES)
    assert len(executors.asked) == 2
    time.now = PAUSE_SECONDS + 0.1
    assert reader.read(source(), 1, limit=100).status is ReadStatus.LINES


def test_only_a_few_wait_at_a_time_and_fewer_for_one_executor(
    reader: LogReader, executors: Executors
) -> None:
    executors.gate.clear()
    answers: list[ReadStatus] = []

    def ask(address: str) -> None:
        answers.append(reader.read(source(address), 1, limit=100).status)

    threads = [threading.Thread(target=ask, args=("one",)) for _ in range(5)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(answers) == 5 - OF_ONE and len(executors.asked) == OF_ONE)
    others = [threading.Thread(target=ask, args=(f"other-{n}",)) for n in range(3)]
    for thread in others:
        thread.start()
    eventually(lambda: len(executors.asked) == AT_A_TIME and len(answers) == 8 - AT_A_TIME)

    assert set(answers) == {ReadStatus.BUSY}
    executors.gate.set()
    for thread in (*threads, *others):
        thread.join(30)
    assert answers.count(ReadStatus.LINES) == AT_A_TIME
    assert reader.read(source(), 1, limit=100).status is ReadStatus.LINES


def test_who_has_patience_waits_for_a_place(reader: LogReader, executors: Executors) -> None:
    executors.gate.clear()
    answers: list[ReadStatus] = []

    def ask(patience: float) -> None:
        part = reader.read(source(), 1, limit=100, wait_seconds=patience)
        answers.append(part.status)

    threads = [threading.Thread(target=ask, args=(10.0,)) for _ in range(OF_ONE + 3)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(executors.asked) == OF_ONE)
    ask(0.0)
    executors.gate.set()
    for thread in threads:
        thread.join(30)

    assert answers == [ReadStatus.BUSY, *[ReadStatus.LINES] * (OF_ONE + 3)]


def test_times_count_until_the_next_one(reader: LogReader, executors: Executors) -> None:
    executors.text = "a\nb\nc\nd"
    executors.values = {"times": ((6, 1_000), (8, 0))}

    assert reader.read(source(), 5, limit=100).line_times == [0, 1_000, 1_000, 0]


def test_a_search_names_lines_and_how_far_it_looked(
    reader: LogReader, executors: Executors
) -> None:
    executors.values = {"found": (7, 9), "to_line": 12, "is_end": False}

    found = reader.search(source(), "words", 5)

    assert (found.status, found.lines, found.to_line, found.is_end) == (
        ReadStatus.LINES,
        (7, 9),
        12,
        False,
    )
    assert (executors.asked[-1].find, executors.asked[-1].from_line) == ("words", 5)


def test_an_executor_that_cannot_search_is_not_believed(
    reader: LogReader, executors: Executors
) -> None:
    assert reader.search(source(), "words", 1).status is ReadStatus.MISSING


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("plain", [("", "plain")]),
        ("", [("", "")]),
        ("\x1b[32mok\x1b[0m done", [("ansi-green", "ok"), ("", " done")]),
        (
            "\x1b[1;31mbad\x1b[39m bold\x1b[22m plain",
            [("ansi-red ansi-bold", "bad"), ("ansi-bold", " bold"), ("", " plain")],
        ),
        ("\x1b[91mbright\x1b[m plain", [("ansi-red", "bright"), ("", " plain")]),
        ("\x1b[38;5;4mblue", [("ansi-blue", "blue")]),
        ("\x1b[38;5;200mpink", [("", "pink")]),
        ("\x1b[38;2;1;31;3mtrue\x1b[4munder", [("", "true"), ("ansi-under", "under")]),
        ("\x1b[41mon red", [("", "on red")]),
        ("\x1b[38;5mcut", [("ansi-black", "cut")]),
        ("\x1b[2J\x1b[32mgreen", [("ansi-green", "green")]),
        ("10 %\r\x1b[33m50 %", [("ansi-yellow", "50 %")]),
        ("\x1b[999999mnone", [("", "none")]),
        ("\x1b[" + "1;" * 100 + "mlong", [("", "long")]),
        ("\x1b[32m<script>\x07", [("ansi-green", "<script>␇")]),
    ],
)
def test_a_line_is_told_in_pieces(printed: str, seen: list[tuple[str, str]]) -> None:
    assert pieces(printed) == seen


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("2026-11-20 10:00:00.123+00:00 INFO a", "2026-11-20 11:00:00.123 INFO a"),
        ("2026-11-20 23:30:00.123-05:00 ERROR a", "2026-11-21 05:30:00.123 ERROR a"),
        ("2026-11-20 10:00:00.123 INFO of an older executor", None),
        ("2026-11-20 10:00:00.123+00:00 what a job printed", None),
        ("2026-99-20 10:00:00.123+00:00 INFO a", None),
        ("2026-11-20 10:00:00.123+99:00 INFO a", None),
        ("0001-01-01 00:00:00.123+14:00 INFO a", None),
        ("nothing of the kind", None),
    ],
)
def test_the_time_that_executors_write_is_shown_in_the_readers_zone(
    line: str, shown: str | None
) -> None:
    assert in_zone(line, "Europe/Berlin") == (line if shown is None else shown)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-20 10:00:00.123+01:00 loaded",
        "2026-11-20T10:00:00Z loaded",
        "2026/11/20 10:00:00 loaded",
        "[2026-11-20 10:00:00,123] loaded",
        "10:00:00 loaded",
        "loaded",
    ],
)
def test_a_time_at_the_beginning_of_a_line_is_not_compared(line: str) -> None:
    assert without_time(line) == "loaded"


class Shelf:
    """Stands where a log store does, with one log in it; it may be away."""

    kind = "shelf"

    def __init__(self, text: bytes) -> None:
        file = io.BytesIO()
        pack(io.BytesIO(text), file.write, size=len(text))
        self.data = file.getvalue()
        self.is_away = False
        self.keys: list[str] = []

    def size(self, key: str) -> int | None:
        self.keys.append(key)
        if self.is_away:
            raise StoreUnavailable("it is away")
        return len(self.data) or None

    def fetch(self, _key: str, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


STORED = LogRow(
    run_id=7,
    identity=1,
    key="demo/day/7.log.gz",
    state="STORED",
    size=1,
    packed=1,
    parts=0,
    told_at=0,
    delete_at=None,
    fault=None,
)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(b"stored one\nstored two\nstored three\n")


@pytest.fixture
def with_store(executors: Executors, time: Time, shelf: Shelf) -> LogReader:
    return LogReader(cast("Requester", executors), time, StoredLogs(lambda: cast("Any", shelf)))


def test_the_executor_is_asked_first(with_store: LogReader, shelf: Shelf) -> None:
    part = with_store.read(source(stored=STORED), 1, limit=10)

    assert (part.lines, part.is_stored) == (("one", "two"), False)
    assert shelf.keys == []


@pytest.mark.parametrize(
    "answer", [{"missing": True, "text": "", "to_line": 0}, {"text": "", "to_line": 0}, None]
)
def test_what_no_executor_has_is_read_in_the_store(
    with_store: LogReader, executors: Executors, answer: dict[str, Any] | None
) -> None:
    executors.is_silent, executors.values = answer is None, answer or {}

    part = with_store.read(source(stored=STORED), 2, limit=1)

    assert (part.status, part.lines, part.is_end) == (ReadStatus.LINES, ("stored two",), False)
    assert part.is_stored


def test_a_search_goes_on_in_the_store(with_store: LogReader, executors: Executors) -> None:
    executors.values = {"text": "", "to_line": 0, "found": ()}

    assert with_store.search(source(stored=STORED), "THREE", 1).lines == (3,)


def test_a_store_that_is_away_is_said_to_be_and_left_alone_for_a_while(
    with_store: LogReader, executors: Executors, shelf: Shelf, time: Time
) -> None:
    executors.is_silent, shelf.is_away = True, True

    statuses = [with_store.read(source(stored=STORED), 1, limit=1).status for _ in range(3)]

    assert statuses == [ReadStatus.STORE_AWAY] * 3
    assert len(shelf.keys) == 1
    time.now += PAUSE_SECONDS
    shelf.is_away = False
    assert with_store.read(source(stored=STORED), 1, limit=1).lines == ("stored one",)


@pytest.mark.parametrize("left", [0, 60])
@pytest.mark.parametrize("is_silent", [True, False])
def test_a_log_that_the_store_has_lost_or_damaged_is_said_to_be(
    with_store: LogReader, executors: Executors, shelf: Shelf, *, left: int, is_silent: bool
) -> None:
    executors.is_silent = is_silent
    executors.values = {"missing": True, "text": "", "to_line": 0}
    shelf.data = shelf.data[:left]

    assert with_store.read(source(stored=STORED), 1, limit=1).status is ReadStatus.STORE_LOST


def test_a_run_without_a_stored_log_is_looked_for_nowhere_else(
    with_store: LogReader, executors: Executors, shelf: Shelf
) -> None:
    executors.is_silent = True

    assert with_store.read(source(), 1, limit=1).status is ReadStatus.SILENT
    assert shelf.keys == []


def test_while_a_run_is_running_its_executor_knows_best(
    with_store: LogReader, executors: Executors, shelf: Shelf
) -> None:
    executors.values = {"text": "", "to_line": 0}

    assert with_store.read(source(stored=STORED, is_over=False), 1, limit=1).lines == ()
    assert shelf.keys == []
