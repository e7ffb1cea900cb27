"""Messages as 0.1.0 wrote them are understood: executors may be a version behind for days."""

from pathlib import Path

from warren.broker.codec import decode
from warren.broker.messages.to_executor import Know, ToExecutor, Trigger, Welcome
from warren.broker.messages.to_scheduler import Callback, Heartbeat, ToScheduler

DATA = Path(__file__).parents[2] / "data/v0_1_0/messages.jsonl"


def test_messages_of_0_1_0_are_understood() -> None:
    lines = DATA.read_bytes().splitlines()

    to_executor = [decode(line, ToExecutor) for line in lines[:3]]
    callback, heartbeat = (decode(line, ToScheduler) for line in lines[3:])

    assert [type(message) for message in to_executor] == [Trigger, Welcome, Know]
    assert isinstance(callback, Callback)
    assert [report.identity for report in callback.reports] == [0, 0, 0, 0]
    assert isinstance(heartbeat, Heartbeat)
    assert heartbeat.last_run_id is None
