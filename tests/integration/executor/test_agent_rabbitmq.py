"""The message half of an executor over a real RabbitMQ."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agents import AgentCase
from tests.support.eventually import eventually
from tests.support.rabbitmq import PrivateRabbit
from warren.broker.messages import Finished, Goodbye
from warren.broker.rabbitmq.transport import AmqpTransport, connect
from warren.broker.transport import BrokerSettings
from warren.executor.journal.file import Ended


class Connections:
    """Makes transports to one broker and closes them all."""

    def __init__(self, url: str) -> None:
        self._settings = BrokerSettings(urls=(url,), backoff_seconds=(0.05, 0.5))
        self._made: list[AmqpTransport] = []

    def make(self) -> AmqpTransport:
        self._made.append(connect(self._settings))
        return self._made[-1]

    def close(self) -> None:
        for transport in self._made:
            transport.close()


@pytest.fixture
def case(tmp_path: Path, vhost: str) -> Iterator[AgentCase]:
    connections = Connections(vhost)
    case = AgentCase(tmp_path, connect=connections.make)
    yield case
    case.close()
    connections.close()


def test_runs_travel_both_ways_and_goodbye_is_said(case: AgentCase) -> None:
    executor = case.boot()

    case.desk.publish(*[case.desk.seal_trigger(run_id) for run_id in range(1, 501)])

    eventually(lambda: len(case.desk.reports) >= 500)
    assert sorted(report.run_id for report in case.desk.reports) == list(range(1, 501))
    executor.stop()
    assert executor.join(30)
    eventually(lambda: case.desk.of(Goodbye))
    assert case.desk.count_unsettled(case.desk.run_queue) == 0


@pytest.mark.release  # faults/test_service_loss.py restarts one under a whole Warren
def test_broker_killed_under_load_loses_and_doubles_nothing(
    tmp_path: Path, own_rabbitmq: PrivateRabbit
) -> None:
    connections = Connections(own_rabbitmq.url)
    case = AgentCase(tmp_path, connect=connections.make)
    case.boot()
    case.desk.publish(*[case.desk.seal_trigger(run_id, param="hold") for run_id in range(1, 101)])
    eventually(lambda: len(case.slots.running) == 4)

    own_rabbitmq.kill()
    for run_id in list(case.slots.running):
        case.slots.finish(run_id)
    eventually(lambda: sum(isinstance(record, Ended) for record in case.records()) >= 4)
    own_rabbitmq.start()

    def all_reported() -> bool:
        for run_id in list(case.slots.running):
            case.slots.finish(run_id)
        return {report.run_id for report in case.desk.reports} == set(range(1, 101))

    eventually(all_reported, 60, 0.05)
    started = [trigger.run_id for trigger in case.slots.started]
    assert sorted(started) == list(range(1, 101))
    assert len(case.desk.reports_on(1, Finished)) >= 1
    case.close()
    connections.close()
