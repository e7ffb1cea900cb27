"""One message of an executor has no more in it than a round can carry."""

import msgspec
import pytest

from warren.broker.messages import (
    FOUND_LIMIT,
    OPEN_LIMIT,
    REPORTS_LIMIT,
    Callback,
    HealthIssue,
    Heartbeat,
    Load,
    LogChunk,
    Message,
    NotStarted,
    OpenRunsQuery,
)

WHO = {"app": "reports", "address": "one", "boot_id": "b"}
ANSWERING = {"address": "one", "boot_id": "b"}


def reports(count: int) -> Callback:
    never = [NotStarted(run_id=n, boot_id="b", reason="") for n in range(count)]
    return Callback(reports=tuple(never), **WHO)


def question(count: int) -> OpenRunsQuery:
    return OpenRunsQuery(run_ids=tuple(range(count)), **WHO)


def found(count: int) -> LogChunk:
    lines = {"run_id": 1, "from_line": 1, "to_line": 0, "text": "", "is_end": True}
    return LogChunk(question_id="q", found=tuple(range(count)), **lines, **ANSWERING)


@pytest.mark.parametrize(
    ("most", "one_more"),
    [
        (reports(REPORTS_LIMIT), reports(REPORTS_LIMIT + 1)),
        (question(OPEN_LIMIT), question(OPEN_LIMIT + 1)),
        (found(FOUND_LIMIT), found(FOUND_LIMIT + 1)),
    ],
    ids=["reports", "question", "found lines"],
)
def test_a_longer_one_is_no_message(most: Message, one_more: Message) -> None:
    def decode(message: Message) -> Message:
        return msgspec.json.decode(msgspec.json.encode(message), type=type(message))

    assert decode(most) == most
    with pytest.raises(msgspec.ValidationError, match="Expected `array` of length <="):
        decode(one_more)


def test_a_health_issue_counts_once_however_often_it_is_named() -> None:
    named = (HealthIssue.DISK, HealthIssue.JOURNAL, HealthIssue.DISK) * 100

    beat = Heartbeat(started_at_ms=1, load=Load(), health_issues=named, **WHO)

    assert beat.each_health_issue == (HealthIssue.JOURNAL, HealthIssue.DISK)
