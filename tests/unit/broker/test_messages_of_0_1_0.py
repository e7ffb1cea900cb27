"""Messages as 0.1.0 wrote them are understood: executors may be a version behind for days."""

import json
from typing import Any, get_args

import msgspec
import pytest

from tests.support import first_release
from warren.broker.codec import catalogue_of, unpacked
from warren.broker.messages import (
    CallEndQuery,
    CallEndReply,
    LogPlaces,
    LogsStored,
    NotWelcome,
    Report,
    RunStateQuery,
    StoreLogs,
    ToExecutor,
    ToScheduler,
    wire_type,
)
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.stored_reasons import from_json
from warren.broker.transport import Delivery

#: A message a line, with what 0.1.0 itself reads in it.
LINES = [
    json.loads(line) for line in (first_release.DATA / "messages.jsonl").open(encoding="utf-8")
]
OPENS = {Direction.TO_EXECUTOR: ToExecutor, Direction.FROM_EXECUTOR: ToScheduler}


def opened(line: dict[str, Any]) -> Any:
    """Return the message of a line, with its signature verified."""
    secret, cluster = "a secret of at least thirty-two characters", "cluster-of-the-samples"
    sealer = Sealer(ClusterKeys(secret), cluster, lambda: 1_790_000_000_000)
    delivery = Delivery(
        queue="",
        routing_key="a-queue",
        body=line["body"].encode(),
        headers=line["headers"],
        redelivered=False,
        tag=None,
    )
    direction = Direction(line["direction"])
    return sealer.open(delivery, expect=OPENS[direction], direction=direction)


def has(today: Any, then: Any) -> bool:
    """Whether a value has all that it had then; it may have more by now."""
    if isinstance(then, dict):
        return all(name in today and has(today[name], value) for name, value in then.items())
    if isinstance(then, list):
        return len(today) == len(then) and all(map(has, today, then))
    return bool(today == then)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["headers"]["type"])
def test_what_0_1_0_reads_in_its_message_is_read_in_it_today(line: dict[str, Any]) -> None:
    message = opened(line)

    read = {
        field.encode_name: msgspec.to_builtins(getattr(message, field.name), str_keys=True)
        for field in msgspec.structs.fields(type(message))
        if field.encode_name in line["read"]
    }
    assert has(json.loads(json.dumps(read, default=str)), line["read"])


def test_there_is_a_message_of_each_kind_that_0_1_0_knew() -> None:
    kinds = {*get_args(ToExecutor), *get_args(ToScheduler)}
    of_later = {NotWelcome, CallEndReply, CallEndQuery, LogPlaces, LogsStored, StoreLogs}
    reports = {one["type"] for line in LINES for one in line["read"].get("reports", ())}

    assert {type(opened(line)) for line in LINES} == kinds - of_later
    assert reports == {kind.__name__ for kind in get_args(Report)}


def test_each_trigger_of_a_message_is_read() -> None:
    [line] = [line for line in LINES if line["headers"]["type"] == "Triggers"]
    alone = [opened(line) for line in LINES if line["headers"]["type"] == "Trigger"]

    assert [trigger for trigger, _ in unpacked(opened(line), len(line["body"]))] == alone


def test_its_catalogue_is_read() -> None:
    [line] = [line for line in LINES if line["headers"]["type"] == "CatalogueAnswer"]

    [handler] = catalogue_of(bytes(opened(line).contents)).handlers

    assert (handler.name, handler.process) == ("name 中文", "handler")


def test_executors_of_0_1_0_are_known_by_what_they_do_not_say() -> None:
    beats = [opened(line) for line in LINES if line["headers"]["type"] == "Heartbeat"]
    [callback] = [opened(line) for line in LINES if line["headers"]["type"] == "Callback"]

    assert [beat.last_run_id for beat in beats] == [None, None]
    assert {report.identity for report in callback.reports} == {0}


def test_its_reasons_are_understood() -> None:
    lines = (first_release.DATA / "reasons.jsonl").read_text().splitlines()

    assert [line for line in lines if from_json(line) is None] == []


def test_its_sentences_are_known_as_those_of_its_reasons() -> None:
    reasons = (first_release.DATA / "reasons.jsonl").read_text().splitlines()
    sentences = (first_release.DATA / "sentences.txt").read_text().splitlines()

    said = {line: reason.as_before() for line in reasons if (reason := from_json(line))}
    assert said == dict(zip(reasons, sentences, strict=True))


def test_messages_are_called_on_the_wire_what_0_1_0_called_them() -> None:
    kinds = {*get_args(ToExecutor), *get_args(ToScheduler)}

    assert {wire_type(kind) for kind in kinds} == {
        *("Trigger", "Triggers", "Welcome", "Refused", "Kill", "StillOpen", "CallEnded", "Drain"),
        *("Beat", "IdleBeat", "Know", "ReadLog"),
        *("BeatAnswer", "IdleBeatAnswer", "KnowAnswer", "LogChunk", "CatalogueAnswer"),
        *("Callback", "Progressed", "WhichOpen", "WhichEnded", "Heartbeat", "Goodbye", "Canary"),
        "NotWelcome",  # only to executors that are newer than 0.1.0
        *("StoreLogs", "LogPlaces", "LogsStored"),  # only with a log store
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
