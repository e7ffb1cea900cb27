"""A receiver that does not answer keeps nobody else waiting."""

from tests.support.stored_rows import Rows
from warren.scheduler.alarms.events import TickNews, to_text
from warren.scheduler.alarms.message import Message, MessageContext
from warren.scheduler.alarms.sender import LEFT_ALONE_SECONDS, AlarmSender, SlowTargets
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import RUN_END, AlarmStatus, MessageKind, NewAlarm
from warren.sql.models import Alarm

NOW_MS = 1_790_000_000_000
DEAD, WELL = "https://dead.example.com/", "https://well.example.com/"


class Receivers:
    """One that is silent for 10 s, and one that answers."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tried: list[str] = []

    def send(self, alarm: Alarm, _message: Message) -> str:
        self.tried.append(alarm.target)
        if alarm.target == DEAD:
            self.seconds += 10
            raise TimeoutError("timed out")
        return "it answered 200"


def message(number: int, target: str) -> NewAlarm:
    news = TickNews(
        app="shop",
        job="nightly",
        run_id=number,
        first_run_id=number,
        kind="CRON",
        status="SUCCEEDED",
        is_success=True,
        scheduled_at=NOW_MS,
        finished_at=NOW_MS,
        message="",
        address="",
    )
    return NewAlarm(
        subject_key=f"end:1:{number}:0",
        channel=RUN_END,
        target=target,
        content=to_text(news),
        created_at=NOW_MS + number,
        job_id=1,
        run_id=number,
        status=AlarmStatus.READY,
    )


def test_silent_receiver_is_left_alone_for_a_while(any_schema_url: str) -> None:
    rows, receivers = Rows(any_schema_url), Receivers()
    waiting = [*(message(number, DEAD) for number in range(1, 6)), message(9, WELL)]
    rows.database.write(lambda session: alarms.add(session, waiting))
    sender = AlarmSender(
        kind=MessageKind.RUN_END,
        database=rows.database,
        send=receivers.send,
        context=MessageContext("UTC"),
        now_ms=lambda: NOW_MS + 100,
        slow=SlowTargets(clock=lambda: receivers.seconds),
    )

    pauses = [sender.run_round(NOW_MS + 100) for _ in range(3)]

    assert receivers.tried == [DEAD, WELL]
    assert pauses[2] > 0
    receivers.seconds += LEFT_ALONE_SECONDS
    sender.run_round(NOW_MS + 100)
    assert receivers.tried == [DEAD, WELL, DEAD]
    rows.database.close()
