import asyncio
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.support.moved_loop import MovedLoop
from warren.broker.messages import NotStarted
from warren.executor.errors import JournalFailed
from warren.executor.journal.file import Journal
from warren.executor.journal.group_commit import CommitPace, GroupCommit
from warren.executor.journal.run_states import RunStates


class FailingJournal(Journal):
    """A journal on a disk that is full while `is_full`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_full = False
        self.commits = 0

    def commit(self) -> None:
        self.commits += 1
        if self.is_full and self.has_pending:
            raise JournalFailed("cannot write journal: No space left on device")
        super().commit()


class Case:
    def __init__(self, path: Path, *, gather_seconds: float = 0.0) -> None:
        self.loop = MovedLoop()
        self.journal = FailingJournal(path)
        self.run_states = RunStates(self.journal, structlog.get_logger())
        self.run_states.begin("boot-1", 1)
        self.troubles: list[bool] = []
        self.events: list[str] = []
        self.commits = GroupCommit(
            self.loop,
            self.run_states,
            structlog.get_logger(),
            self.troubles.append,
            CommitPace(gather_seconds=gather_seconds, retry_seconds=0.01),
        )

    def note(self, event: str) -> None:
        self.events.append(event)

    def round(self, seconds: float = 0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    case = Case(tmp_path / "journal")
    yield case
    case.loop.close()


def test_one_round_of_the_loop_is_one_commit(case: Case) -> None:
    for run_id in range(50):
        case.run_states.accept(run_id)
        case.commits.when_durable(lambda: None)

    case.round()
    case.round()

    assert case.journal.commits == 1


def test_effects_happen_after_the_commit_and_in_order(case: Case) -> None:
    case.run_states.accept(1)
    case.commits.when_durable(lambda: case.note(f"first {case.journal.has_pending}"))
    case.commits.after_commit_attempt(lambda: case.note("tried"))
    case.commits.when_durable(lambda: case.note("second"))
    assert case.events == []

    case.round()
    case.round()

    assert case.events == ["first False", "second", "tried"]


def test_full_disk_holds_back_durable_effects_but_not_reports(case: Case) -> None:
    case.journal.is_full = True
    case.run_states.accept(1)
    case.commits.when_durable(lambda: case.note("ack"))
    case.run_states.finish(NotStarted(run_id=2, boot_id="boot-0", reason=""))
    case.commits.after_commit_attempt(lambda: case.note("report"))

    case.round(0.05)

    assert case.events == ["report"]
    assert case.troubles == [True]
    assert case.commits.is_failing


def test_full_disk_is_tried_at_intervals_however_much_happens_meanwhile(case: Case) -> None:
    case.journal.is_full = True
    case.run_states.accept(1)
    for _ in range(50):
        case.commits.schedule()
        case.round(0.001)
    before = case.journal.commits

    case.round(0.1)

    assert case.journal.commits - before <= 12


def test_room_on_the_disk_ends_the_trouble_by_itself(case: Case) -> None:
    case.journal.is_full = True
    case.run_states.accept(1)
    case.commits.when_durable(lambda: case.note("ack"))
    case.round(0.03)

    case.journal.is_full = False
    case.round(0.05)

    assert case.events == ["ack"]
    assert case.troubles == [True, False]
    assert not case.commits.is_failing


def test_effect_that_raises_spoils_no_other(case: Case) -> None:
    def fail() -> None:
        raise ValueError("broken")

    case.run_states.accept(1)
    case.commits.when_durable(fail)
    case.commits.when_durable(lambda: case.note("next"))

    case.round()
    case.round()

    assert case.events == ["next"]


def test_effect_of_an_effect_happens_in_the_next_commit(case: Case) -> None:
    def start() -> None:
        case.run_states.accept(2)
        case.commits.when_durable(lambda: case.note("second"))

    case.run_states.accept(1)
    case.commits.when_durable(start)

    case.round()
    case.round()
    case.round()

    assert case.events == ["second"]
    assert case.journal.commits == 2


def test_what_comes_soon_after_a_commit_gathers_for_the_next(tmp_path: Path) -> None:
    case = Case(tmp_path / "journal", gather_seconds=60)
    case.run_states.accept(1)
    case.commits.when_durable(lambda: case.note("first"))
    case.round(0.01)

    for run_id in (2, 3, 4):
        case.run_states.accept(run_id)
        case.commits.when_durable(lambda: case.note("gathered"))
        case.round(0.001)
    before = list(case.events)
    case.loop.skip(60)
    case.round(0.1)

    assert before == ["first"]
    assert case.events == ["first", *["gathered"] * 3]
    assert case.journal.commits == 2
    case.loop.close()


def test_real_file_that_cannot_grow_is_trouble_too(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    run_states = RunStates(Journal(tmp_path / "journal"), structlog.get_logger())
    run_states.begin("boot-1", 1)
    troubles: list[bool] = []
    # What is printed now would meet the same limit.
    quiet = structlog.wrap_logger(structlog.ReturnLogger(), processors=[])
    commits = GroupCommit(loop, run_states, quiet, troubles.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    for run_id in range(100):
        run_states.accept(run_id)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        commits.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)
    commits.commit()
    loop.close()

    assert troubles == [True, False]
    reports = RunStates(Journal(tmp_path / "journal"), structlog.get_logger()).begin("boot-2", 2)
    assert [report.run_id for report, _ in reports] == list(range(100))
