"""Messages as 0.1.0 wrote them are understood: executors may be a version behind for days."""

import json
from pathlib import Path
from typing import get_args

from warren.broker.codec import decode
from warren.broker.messages import (
    Callback,
    Heartbeat,
    RunStateQuery,
    ToExecutor,
    ToScheduler,
    Trigger,
    Welcome,
    wire_type,
)
from warren.broker.signing import ClusterKeys, Direction, Sealer

DATA = Path(__file__).parents[2] / "data/v0_1_0/messages.jsonl"


def test_messages_of_0_1_0_are_understood() -> None:
    lines = DATA.read_bytes().splitlines()

    to_executor = [decode(line, ToExecutor) for line in lines[:3]]
    callback, heartbeat = (decode(line, ToScheduler) for line in lines[3:])

    assert [type(message) for message in to_executor] == [Trigger, Welcome, RunStateQuery]
    assert isinstance(callback, Callback)
    assert [report.identity for report in callback.reports] == [0, 0, 0, 0]
    assert isinstance(heartbeat, Heartbeat)
    assert heartbeat.last_run_id is None


def test_messages_are_called_on_the_wire_what_0_1_0_called_them() -> None:
    kinds = {*get_args(ToExecutor), *get_args(ToScheduler)}

    assert {wire_type(kind) for kind in kinds} == {
        *("Trigger", "Triggers", "Welcome", "Refused", "Kill", "StillOpen", "CallEnded", "Drain"),
        *("Beat", "IdleBeat", "Know", "ReadLog"),
        *("BeatAnswer", "IdleBeatAnswer", "KnowAnswer", "LogChunk", "CatalogueAnswer"),
        *("Callback", "Progressed", "WhichOpen", "WhichEnded", "Heartbeat", "Goodbye", "Canary"),
        "NotWelcome",  # only to executors that are newer than 0.1.0
    }


def test_the_header_that_names_a_message_is_its_type_in_the_body() -> None:
    sealer = Sealer(ClusterKeys("secret"), "cluster", lambda: 0)
    message = RunStateQuery(question_id="q", reply_to="r", runs=())

    sealed = sealer.seal(
        message,
        exchange="",
        routing_key="q",
        direction=Direction.TO_EXECUTOR,
        app="a",
        address="b",
        valid_seconds=9,
    )

    assert sealed.headers["type"] == json.loads(sealed.body)["type"] == "Know"
