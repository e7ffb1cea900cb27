import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
import structlog

from tests.support.eventually import eventually
from tests.support.fake_scheduler import SECRET, now_ms
from tests.support.scripted_publisher import ScriptedPublisher
from tests.support.started_threads import StartedThreads
from warren.broker.messages import Heartbeat, Load
from warren.broker.signing import ClusterKeys, Sealer
from warren.broker.transport import Confirm
from warren.executor.messaging.heartbeat import HeartbeatThread, SchedulerClock
from warren.executor.messaging.outbox import Identity, Sender

WHO = Identity(app="demo", address="exec-1", boot_id="boot-1")


class Case:
    def __init__(self, publisher: ScriptedPublisher) -> None:
        self.skipped_seconds = 0.0
        self.host_ahead_seconds = 0.0
        self.publisher = publisher
        self.answered: list[float] = []
        self.failures = 0
        self.composed = 0
        sender = Sender(WHO, Sealer(ClusterKeys(SECRET), "cluster", now_ms), publisher)
        self.heartbeats = HeartbeatThread(
            sender,
            self.compose,
            self.answered.append,
            SchedulerClock(
                monotonic=lambda: time.monotonic() + self.skipped_seconds,
                wall=lambda: time.time() + self.host_ahead_seconds,
            ),
            structlog.get_logger(),
            unanswered_beat_seconds=0.01,
        )

    def valid_seconds(self) -> float:
        """How long the latest heartbeat is valid, by the executor's clock."""
        return int(self.publisher.sent[-1].headers["expiry"]) / 1000 - time.time()

    def compose(self) -> Heartbeat:
        self.composed += 1
        if self.failures:
            self.failures -= 1
            raise OSError("psutil read half a line")
        return Heartbeat(
            app="demo", address="exec-1", boot_id="boot-1", started_at_ms=1, load=Load()
        )


@pytest.fixture
def make() -> Iterator[Callable[..., Case]]:
    cases: list[Case] = []

    def build(*script: list[Confirm]) -> Case:
        cases.append(Case(ScriptedPublisher(*script)))
        return cases[-1]

    yield build
    for case in cases:
        case.heartbeats.close()


def test_first_heartbeat_goes_out_at_once_to_every_scheduler(make: Callable[..., Case]) -> None:
    case = make()

    case.heartbeats.start()

    sent = eventually(lambda: case.publisher.sent)[0]
    assert (sent.exchange, sent.routing_key, sent.durable) == ("warren.reply", "heartbeat", False)
    assert msgspec.json.decode(sent.body, type=Heartbeat).boot_id == "boot-1"


def test_unwelcomed_executor_beats_often_and_a_welcomed_one_calmly(
    make: Callable[..., Case],
) -> None:
    case = make()
    case.heartbeats.start()
    eventually(lambda: len(case.publisher.sent) >= 3)

    case.heartbeats.welcome()
    case.heartbeats.beat_now()
    eventually(lambda: case.valid_seconds() <= 60)  # as is what a welcomed one sends

    count = len(case.publisher.sent)
    with pytest.raises(AssertionError, match="did not come true"):
        eventually(lambda: len(case.publisher.sent) > count + 1, 0.2)


def test_heartbeat_is_valid_for_a_minute_while_schedulers_answer_and_else_for_a_day(
    make: Callable[..., Case],
) -> None:
    """The database's clock may have jumped: schedulers must not take the executor for dead."""
    case = make()
    case.heartbeats.start()
    eventually(lambda: case.publisher.sent)
    assert case.valid_seconds() > 80_000

    case.heartbeats.welcome()
    case.heartbeats.beat_now()
    eventually(lambda: case.valid_seconds() <= 60)

    case.skipped_seconds += 9.9  # one heartbeat, sent after 5 s, was not answered
    case.heartbeats.beat_now()
    eventually(lambda: case.valid_seconds() > 80_000)


def test_executor_that_was_suspended_for_days_is_heard_though_its_clock_stood_still(
    make: Callable[..., Case],
) -> None:
    case = make()
    case.heartbeats.welcome()
    case.skipped_seconds += 9.9
    case.host_ahead_seconds = 3 * 86_400.0

    case.heartbeats.start()

    eventually(lambda: case.publisher.sent)
    assert case.valid_seconds() > 3 * 86_400 + 80_000


@pytest.mark.parametrize("fate", [Confirm.CONFIRMED, Confirm.RETURNED])
def test_confirmed_and_returned_both_prove_that_the_broker_answers(
    make: Callable[..., Case], fate: Confirm
) -> None:
    case = make([fate])
    before = time.monotonic()

    case.heartbeats.start()

    first = eventually(lambda: case.answered)[0]
    assert before <= first <= time.monotonic()


def test_unanswered_heartbeat_proves_nothing_and_is_followed_soon(
    make: Callable[..., Case],
) -> None:
    case = make(*[[Confirm.UNKNOWN]] * 5)
    case.heartbeats.welcome()

    case.heartbeats.start()

    eventually(lambda: case.answered)
    assert len(case.publisher.sent) >= 6


def test_contact_counts_from_the_sending_not_from_the_answer(make: Callable[..., Case]) -> None:
    case = make()
    case.publisher.gate.clear()
    case.heartbeats.start()
    eventually(lambda: case.publisher.sent)
    sent_by = time.monotonic()

    case.publisher.gate.set()

    assert eventually(lambda: case.answered)[0] <= sent_by


def test_heart_goes_on_after_a_heartbeat_that_could_not_be_composed(
    make: Callable[..., Case],
) -> None:
    case = make()
    case.failures = 3

    case.heartbeats.start()

    eventually(lambda: case.answered)
    assert case.composed >= 4


def test_beat_now_does_not_wait_for_its_time(make: Callable[..., Case]) -> None:
    case = make()
    case.heartbeats.welcome()
    case.heartbeats.start()
    eventually(lambda: case.answered)

    case.heartbeats.beat_now()

    eventually(lambda: len(case.answered) >= 2)


def test_no_heartbeat_leaves_after_the_close(make: Callable[..., Case]) -> None:
    threads = StartedThreads()
    case = make()
    case.heartbeats.start()
    eventually(lambda: case.answered)
    before = threads.names()

    case.heartbeats.close()

    count = len(case.publisher.sent)
    case.heartbeats.beat_now()
    assert len(case.publisher.sent) == count
    assert (before, threads.names()) == (["heartbeat exec-1"], [])


def test_close_closes_the_connection(make: Callable[..., Case]) -> None:
    case = make()

    case.heartbeats.close()

    assert not case.publisher.is_ready
