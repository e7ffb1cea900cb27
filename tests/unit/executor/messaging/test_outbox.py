from collections.abc import Callable, Iterator

import msgspec
import pytest
import structlog

from tests.support.eventually import eventually
from tests.support.fake_scheduler import SECRET, now_ms
from tests.support.scripted_publisher import ScriptedPublisher
from tests.support.started_threads import StartedThreads
from warren.broker.messages import (
    Callback,
    Called,
    Finished,
    NotStarted,
    Outcome,
    Report,
    Started,
)
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Confirm
from warren.executor.messaging.outbox import FULL_BYTES, FULL_REPORTS, Identity, Outbox, Sender

OK, LOST, BACK = Confirm.CONFIRMED, Confirm.UNKNOWN, Confirm.RETURNED
WHO = Identity(app="demo", address="exec-1", boot_id="boot-1")


def finished(run_id: int, message: str = "") -> Finished:
    return Finished(
        run_id=run_id,
        boot_id="boot-1",
        outcome=Outcome.SUCCEEDED,
        message=message,
        finished_at_ms=1,
    )


def started(run_id: int) -> Started:
    return Started(run_id=run_id, boot_id="boot-1", started_at_ms=1)


class Case:
    def __init__(self, publisher: ScriptedPublisher, **limits: float) -> None:
        self.publisher = publisher
        self.confirmed: list[int] = []
        self.calls: list[tuple[int, int]] = []
        sender = Sender(WHO, Sealer(ClusterKeys(SECRET), "cluster", now_ms), publisher)
        self.outbox = Outbox(
            sender,
            self.confirmed.extend,
            structlog.get_logger(),
            backoff_seconds=(0.001, 0.01),
            on_calls_confirmed=self.calls.extend,
            **limits,
        )

    def callbacks(self) -> list[Callback]:
        return [msgspec.json.decode(sent.body, type=Callback) for sent in self.publisher.sent]

    def reports(self) -> list[Report]:
        return [report for callback in self.callbacks() for report in callback.reports]


@pytest.fixture
def make() -> Iterator[Callable[..., Case]]:
    cases: list[Case] = []

    def build(*script: list[Confirm], **limits: float) -> Case:
        cases.append(Case(ScriptedPublisher(*script), **limits))
        return cases[-1]

    yield build
    for case in cases:
        case.publisher.gate.set()
        case.outbox.close()


def test_reports_travel_in_one_callback_in_order(make: Callable[..., Case]) -> None:
    case = make()
    for run_id in range(1, 51):
        case.outbox.add(finished(run_id), 100)

    case.outbox.start()

    eventually(lambda: len(case.confirmed) == 50)
    (callback,) = case.callbacks()
    assert [report.run_id for report in callback.reports] == list(range(1, 51))
    assert (callback.app, callback.address, callback.boot_id) == ("demo", "exec-1", "boot-1")


def test_callback_is_durable_and_good_for_thirty_days(make: Callable[..., Case]) -> None:
    case = make()
    case.outbox.add(finished(1), 100)

    case.outbox.start()

    (sent,) = eventually(lambda: case.publisher.sent)
    assert (sent.exchange, sent.routing_key, sent.durable) == ("warren.reply", "callback", True)
    left_ms = int(sent.headers["expiry"]) - now_ms()
    assert 29.9 * 86_400_000 < left_ms <= 30 * 86_400_000


def test_hundred_reports_fill_a_callback(make: Callable[..., Case]) -> None:
    case = make()
    for run_id in range(250):
        case.outbox.add(finished(run_id), 100)

    case.outbox.start()

    eventually(lambda: len(case.confirmed) == 250)
    assert [len(callback.reports) for callback in case.callbacks()] == [100, 100, 50]
    assert len(case.publisher.rounds) == 1


def test_reports_soon_after_a_callback_gather_for_the_next(make: Callable[..., Case]) -> None:
    case = make(gather_seconds=3)
    case.outbox.start()
    case.outbox.add(finished(1), 100)
    eventually(lambda: case.confirmed == [1])

    for run_id in (2, 3):
        case.outbox.add(finished(run_id), 100)

    eventually(lambda: case.confirmed == [1, 2, 3])
    assert [len(callback.reports) for callback in case.callbacks()] == [1, 2]


def test_half_a_megabyte_fills_a_callback(make: Callable[..., Case]) -> None:
    case = make()
    for run_id in range(5):
        case.outbox.add(finished(run_id, "x" * 200_000), 200_100)

    case.outbox.start()

    eventually(lambda: len(case.confirmed) == 5)
    assert [len(callback.reports) for callback in case.callbacks()] == [2, 2, 1]


def test_report_over_half_a_megabyte_travels_alone(make: Callable[..., Case]) -> None:
    case = make()
    case.outbox.add(finished(1, "x" * 600_000), 600_100)
    case.outbox.add(finished(2), 100)

    case.outbox.start()

    eventually(lambda: len(case.confirmed) == 2)
    assert [len(callback.reports) for callback in case.callbacks()] == [1, 1]


@pytest.mark.parametrize("fate", [LOST, BACK])
def test_callback_that_was_not_confirmed_is_sent_again(
    make: Callable[..., Case], fate: Confirm
) -> None:
    case = make([fate], [fate], [fate])
    case.outbox.add(finished(1), 100)

    case.outbox.start()

    assert eventually(lambda: case.confirmed) == [1]
    assert [report.run_id for report in case.reports()] == [1, 1, 1, 1]
    assert case.outbox.is_empty


def test_only_the_unconfirmed_of_a_window_are_sent_again_and_before_what_came_later(
    make: Callable[..., Case],
) -> None:
    case = make([OK, LOST, OK])
    for run_id in range(300):
        case.outbox.add(finished(run_id), 100)

    case.outbox.start()

    eventually(lambda: len(case.confirmed) == 300)
    again = case.callbacks()[3]
    assert [report.run_id for report in again.reports] == list(range(100, 200))


def test_started_whose_callback_got_lost_does_not_follow_its_finished(
    make: Callable[..., Case],
) -> None:
    case = make([LOST])
    case.publisher.gate.clear()
    case.outbox.add(started(1), 100)
    case.outbox.start()
    eventually(lambda: case.publisher.rounds)

    case.outbox.add(finished(1), 100)
    case.publisher.gate.set()

    assert eventually(lambda: case.confirmed) == [1]
    assert [type(report) for report in case.reports()] == [Started, Finished]
    assert case.outbox.is_empty


def test_started_that_got_lost_is_not_repeated_though_its_finished_came_through(
    make: Callable[..., Case],
) -> None:
    case = make([LOST, OK], message_reports=1)
    case.outbox.add(started(1), 100)
    case.outbox.add(finished(1), 100)

    case.outbox.start()

    eventually(lambda: case.outbox.is_empty)
    assert [type(report) for report in case.reports()] == [Started, Finished]


def test_started_of_a_run_still_at_work_is_sent_again(make: Callable[..., Case]) -> None:
    case = make([LOST])
    case.outbox.add(started(1), 100)

    case.outbox.start()

    eventually(lambda: case.outbox.is_empty)
    assert case.reports() == [started(1), started(1)]
    assert case.confirmed == []


def test_final_report_that_waits_already_is_not_added_twice(make: Callable[..., Case]) -> None:
    case = make()
    case.outbox.add(finished(1), 100)
    case.outbox.add(finished(1), 100)

    case.outbox.start()

    eventually(lambda: case.outbox.is_empty)
    assert case.reports() == [finished(1)]


def test_confirmed_report_may_be_sent_once_more_when_asked_for(make: Callable[..., Case]) -> None:
    case = make()
    case.outbox.start()
    case.outbox.add(finished(1), 100)
    eventually(lambda: case.confirmed)

    case.outbox.add(finished(1), 100)

    eventually(lambda: case.confirmed == [1, 1])


def test_not_started_counts_as_final(make: Callable[..., Case]) -> None:
    case = make()
    case.outbox.add(NotStarted(run_id=1, boot_id="boot-0", reason="other boot"), 100)

    case.outbox.start()

    assert eventually(lambda: case.confirmed) == [1]


def test_full_outbox_says_so_by_count_and_by_bytes(make: Callable[..., Case]) -> None:
    many, large = make(), make()
    for run_id in range(FULL_REPORTS - 1):
        many.outbox.add(finished(run_id), 1)
    large.outbox.add(finished(1), FULL_BYTES - 1)
    assert not many.outbox.is_full
    assert not large.outbox.is_full

    many.outbox.add(finished(-1), 1)
    large.outbox.add(finished(2), 1)

    assert many.outbox.is_full
    assert large.outbox.is_full


def test_full_outbox_empties_when_the_broker_is_back(make: Callable[..., Case]) -> None:
    case = make(*[[LOST] * 8] * 5)
    for run_id in range(FULL_REPORTS):
        case.outbox.add(finished(run_id), 1)

    case.outbox.start()

    eventually(lambda: case.outbox.is_empty)
    assert not case.outbox.is_full
    assert sorted(case.confirmed) == list(range(FULL_REPORTS))


def test_close_ends_the_thread_though_the_broker_never_answers(
    make: Callable[..., Case],
) -> None:
    threads = StartedThreads()
    case = make(*[[LOST]] * 1_000)
    case.outbox.add(finished(1), 100)
    case.outbox.start()
    eventually(lambda: len(case.publisher.rounds) > 2)
    before = threads.names()

    case.outbox.close()

    assert (before, threads.names()) == (["outbox exec-1"], [])
    assert not case.outbox.is_empty


def test_calls_are_confirmed_apart_and_sent_although_their_run_is_over(
    make: Callable[..., Case],
) -> None:
    case = make([LOST])
    first, second = (
        Called(run_id=7, boot_id="boot-1", number=number, job="mail") for number in (1, 2)
    )
    for report in (first, finished(7), second):
        case.outbox.add(report, 100)
    case.outbox.start()
    eventually(lambda: case.outbox.is_empty)

    assert case.reports()[-3:] == [first, finished(7), second]
    assert (case.confirmed, case.calls) == ([7], [(7, 1), (7, 2)])
