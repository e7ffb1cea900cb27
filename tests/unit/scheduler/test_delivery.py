"""Rows into triggers, and triggers onto the broker, or not."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from broker.memory import MemoryBroker
from broker.messages import Trigger
from broker.signing import Direction, Sealer
from broker.topology import run_queue
from scheduler.delivery import Delivery, parcel, parcels_again
from scheduler.scripts import Script

SECRET = "a secret of at least thirty-two characters"


class Post:
    """A delivery and the queue of executor `one`."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        transport = self.broker.transport()
        self.sealer = Sealer(SECRET, "c", lambda: int(time.time() * 1000))
        self.admin = transport.admin("a")
        self.admin.declare_exchanges()
        self.admin.declare_queues([run_queue("demo", "one")])
        self.delivery = Delivery(transport.publisher("p"), self.sealer)

    def read(self) -> list[Trigger]:
        found: list[Trigger] = []

        def keep(deliveries: Any) -> None:
            direction = Direction.TO_EXECUTOR
            found.extend(
                self.sealer.open(one, expect=Trigger, direction=direction) for one in deliveries
            )

        self.admin.drain(run_queue("demo", "one").name, 100, keep)
        return found


@pytest.fixture
def post() -> Post:
    return Post()


def run(**values: Any) -> Any:
    facts = {"id": 7, "job_id": 2, "job_group": 1, "kind": "CRON", "executor_handler": "h"}
    more = {"executor_param": "p", "attempt": 1, "shard_index": 0, "shard_total": 1}
    routed = {"executor_address": "one", "boot_id": "b1", "routed_at": 55}
    rest = {"scheduled_at": 900, "glue_id": None}
    return SimpleNamespace(**(facts | more | routed | rest | values))


def job(**values: Any) -> Any:
    facts = {"executor_block_strategy": "COVER_EARLY", "concurrency": 2, "executor_timeout": 9}
    return SimpleNamespace(**(facts | {"fresh_process": 1} | values))


def parcel_to(address: str = "one", **values: Any) -> Any:
    return parcel(run(**values), job(), app="demo", address=address, boot_id="b1", routed_at=55)


def test_a_trigger_says_what_run_and_job_say(post: Post) -> None:
    receipt = post.delivery.send([parcel_to()], decided_at=time.monotonic()).receipt()

    [trigger] = post.read()
    assert len(receipt.confirmed) == 1
    assert (trigger.run_id, trigger.boot_id, trigger.handler) == (7, "b1", "h")
    assert (trigger.block, trigger.concurrency, trigger.timeout_seconds) == ("COVER_EARLY", 2, 9)
    assert (trigger.fresh_process, trigger.resent, trigger.routed_at_ms) == (True, False, 55)


def test_a_decision_that_is_too_old_is_not_published(post: Post) -> None:
    shipment = post.delivery.send([parcel_to()], decided_at=time.monotonic() - 60)

    assert len(shipment.receipt().unknown) == 1
    assert post.read() == []


def test_a_queue_that_is_not_there_returns_its_trigger_alone(post: Post) -> None:
    shipment = post.delivery.send(
        [parcel_to(), parcel_to("two", id=8)], decided_at=time.monotonic()
    )

    receipt = shipment.receipt()
    assert [item.trigger.run_id for item in receipt.confirmed] == [7]
    assert [item.trigger.run_id for item in receipt.returned] == [8]


def test_a_trigger_that_fits_into_no_message_spoils_no_other(post: Post) -> None:
    huge = parcel_to(id=8, executor_param="x" * 2_000_000)

    receipt = post.delivery.send([huge, parcel_to()], decided_at=time.monotonic()).receipt()

    assert [item.trigger.run_id for item in receipt.confirmed] == [7]
    assert [item.trigger.run_id for item, _why in receipt.unsendable] == [8]


def test_while_the_broker_is_away_the_fate_is_unknown(post: Post) -> None:
    post.broker.stop()

    receipt = post.delivery.send([parcel_to()], decided_at=time.monotonic()).receipt()

    assert len(receipt.unknown) == 1
    assert not post.delivery.is_open


def test_what_is_sent_again_says_so_and_goes_to_the_same_boot() -> None:
    [again] = parcels_again([run()], {2: job()}, {1: "demo"}, {})

    assert again.trigger.resent
    assert (again.address, again.trigger.boot_id, again.trigger.routed_at_ms) == ("one", "b1", 55)


def test_script_goes_along_also_when_it_is_sent_again() -> None:
    script = Script("python", "print(1)")
    scripted = run(glue_id=12, executor_handler="")

    first = parcel(
        scripted, job(), app="demo", address="one", boot_id="b1", routed_at=55, script=script
    )
    [again] = parcels_again([scripted], {2: job()}, {1: "demo"}, {12: script})

    for trigger in (first.trigger, again.trigger):
        assert (trigger.script_language, trigger.script_source) == ("python", "print(1)")
        assert trigger.handler == ""


@pytest.mark.parametrize("scripts", [{}, {12: None}])
def test_run_whose_script_is_gone_is_not_sent_again(scripts: dict[int, None]) -> None:
    assert parcels_again([run(glue_id=12)], {2: job()}, {1: "demo"}, scripts) == []


def test_runs_of_deleted_or_broken_jobs_are_not_sent_again() -> None:
    rows = [run(), run(id=8, job_id=3), run(id=9, job_id=4)]
    jobs = {2: job(), 3: job(executor_block_strategy="NONSENSE")}

    again = parcels_again(rows, jobs, {1: "demo"}, {})

    assert [item.trigger.run_id for item in again] == [7]
