"""Triggers onto the broker, or not."""

import time
from typing import Any

import pytest

from tests.support.trigger_rows import job, run
from warren.broker.codec import MAX_PACK_BYTES, unpacked
from warren.broker.memory import MemoryBroker
from warren.broker.messages import Trigger, Triggers
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.topology import run_queue
from warren.scheduler.recovery.rescuer import TriggerParts
from warren.scheduler.triggers import TriggerMessages, TriggerPublisher, routed_trigger

SECRET = "a secret of at least thirty-two characters"


class Post:
    """A publisher and the queue of executor `one`."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        transport = self.broker.transport()
        self.sealer = Sealer(ClusterKeys(SECRET), "c", lambda: int(time.time() * 1000))
        self.admin = transport.admin("a")
        self.admin.declare_exchanges()
        self.admin.declare_queues([run_queue("demo", "one")])
        self.capacity: dict[str, int] = {}
        messages = TriggerMessages(self.sealer, lambda _app, address, _boot: self.takes(address))
        self.publisher = TriggerPublisher(transport.publisher("p"), messages, stale_seconds=0.75)

    def takes(self, address: str) -> int:
        return self.capacity.get(address, 1)

    def read(self) -> list[Any]:
        """Take the messages, in the order in which they came."""
        found: list[Any] = []

        def keep(deliveries: Any) -> None:
            direction = Direction.TO_EXECUTOR
            found.extend(
                self.sealer.open(one, expect=Trigger | Triggers, direction=direction)
                for one in deliveries
            )

        self.admin.drain(run_queue("demo", "one").name, 100, keep)
        return found


@pytest.fixture
def post() -> Post:
    return Post()


def trigger_to(address: str = "one", schedule_kind: str = "CRON", **values: Any) -> Any:
    return routed_trigger(
        run(**values),
        job(schedule_kind=schedule_kind),
        app="demo",
        address=address,
        boot_id="b1",
        routed_at=55,
    )


def test_a_trigger_says_what_run_and_job_say(post: Post) -> None:
    result = post.publisher.send([trigger_to()], decided_at=time.monotonic()).result()

    [trigger] = post.read()
    assert len(result.confirmed) == 1
    assert (trigger.run_id, trigger.boot_id, trigger.handler) == (7, "b1", "h")
    assert (trigger.block, trigger.concurrency, trigger.timeout_seconds) == ("COVER_EARLY", 2, 9)
    assert (trigger.process, trigger.resent, trigger.routed_at_ms) == ("fresh", False, 55)


def test_a_trigger_says_whether_its_job_is_due_only_once() -> None:
    said = {kind: trigger_to(schedule_kind=kind).trigger.one_time for kind in ("AT", "CRON")}

    assert said == {"AT": True, "CRON": False}


def test_a_decision_that_is_too_old_is_not_published(post: Post) -> None:
    batch = post.publisher.send([trigger_to()], decided_at=time.monotonic() - 60)

    assert len(batch.result().unknown) == 1
    assert post.read() == []


def test_a_queue_that_is_not_there_returns_its_trigger_alone(post: Post) -> None:
    batch = post.publisher.send(
        [trigger_to(), trigger_to("two", id=8)], decided_at=time.monotonic()
    )

    result = batch.result()
    assert [item.trigger.run_id for item in result.confirmed] == [7]
    assert [item.trigger.run_id for item in result.returned] == [8]


def test_a_trigger_that_fits_into_no_message_spoils_no_other(post: Post) -> None:
    huge = trigger_to(id=8, param="x" * 2_000_000)

    result = post.publisher.send([huge, trigger_to()], decided_at=time.monotonic()).result()

    assert [item.trigger.run_id for item in result.confirmed] == [7]
    assert [item.trigger.run_id for item, _why in result.unsendable] == [8]


def test_while_the_broker_is_away_the_fate_is_unknown(post: Post) -> None:
    post.broker.stop()

    result = post.publisher.send([trigger_to()], decided_at=time.monotonic()).result()

    assert len(result.unknown) == 1
    assert not post.publisher.is_open


def run_ids(messages: list[Any]) -> list[list[int]]:
    """The ids in each message."""
    return [[one.run_id for one, _ in unpacked(message, 0)] for message in messages]


def test_triggers_of_one_boot_share_messages_of_fifty_and_a_fate(post: Post) -> None:
    post.capacity["one"] = 50
    triggers = [trigger_to(id=number) for number in range(120)]

    result = post.publisher.send(triggers, decided_at=time.monotonic()).result()

    assert [len(ids) for ids in run_ids(post.read())] == [50, 50, 20]
    assert [one.trigger.run_id for one in result.confirmed] == list(range(120))


def test_a_message_that_is_returned_returns_all_of_its_triggers_and_no_others(post: Post) -> None:
    post.capacity = {"one": 50, "two": 50}
    triggers = [trigger_to(("one", "two")[number % 2], id=number) for number in range(100)]

    result = post.publisher.send(triggers, decided_at=time.monotonic()).result()

    assert [one.trigger.run_id for one in result.confirmed] == list(range(0, 100, 2))
    assert [one.trigger.run_id for one in result.returned] == list(range(1, 100, 2))


def test_a_boot_that_takes_one_trigger_a_message_gets_one_a_message(post: Post) -> None:
    post.publisher.send([trigger_to(id=1), trigger_to(id=2)], decided_at=time.monotonic())

    assert [type(message) for message in post.read()] == [Trigger, Trigger]


def test_triggers_of_different_boots_share_no_message(post: Post) -> None:
    post.capacity["one"] = 50
    other = routed_trigger(run(id=3), job(), app="demo", address="one", boot_id="b2", routed_at=55)

    post.publisher.send([trigger_to(id=1), trigger_to(id=2), other], decided_at=time.monotonic())

    assert run_ids(post.read()) == [[1, 2], [3]]


def test_a_message_holds_only_so_many_bytes(post: Post) -> None:
    post.capacity["one"] = 50
    long = [trigger_to(id=number, param="x" * (MAX_PACK_BYTES // 3)) for number in range(5)]

    post.publisher.send(long, decided_at=time.monotonic())

    assert run_ids(post.read()) == [[0, 1], [2, 3], [4]]


def test_one_that_nobody_can_encode_keeps_none_of_its_neighbours(post: Post) -> None:
    post.capacity["one"] = 50
    triggers = [trigger_to(id=number) for number in range(5)]
    triggers[2] = trigger_to(id=2, param="\ud800")

    result = post.publisher.send(triggers, decided_at=time.monotonic()).result()

    assert sorted(i for ids in run_ids(post.read()) for i in ids) == [0, 1, 3, 4]
    assert [item.trigger.run_id for item, _ in result.unsendable] == [2]


def test_what_is_sent_again_travels_alone(post: Post) -> None:
    post.capacity["one"] = 50
    parts = TriggerParts({2: job()}, {1: "demo"}, {})
    again = [parts.trigger(run(id=1)), parts.trigger(run(id=2))]

    post.publisher.send(again, decided_at=time.monotonic())

    assert run_ids(post.read()) == [[1], [2]]
