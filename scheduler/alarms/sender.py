"""Sends alarms of one kind, e-mails or webhooks; each kind has its own threads.

An alarm is claimed, sent, and recorded as sent. After a crash between sending and recording, it is
sent again: each alarm is sent at least once, and a receiver recognises a duplicate by its id.

Bad receivers do not delay the others. Those that fail slowly are skipped for a while, and a
connection has a limit on its total time: a socket's own timeout counts from byte to byte, so a
server that sends one every few seconds would block the thread forever.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

import structlog
from sqlalchemy.orm import Session

from warren.scheduler.alarms.events import from_text
from warren.scheduler.alarms.message import Message, MessageContext, message
from warren.scheduler.alarms.rate_limiter import GIVE_UP_MS, run_ids_of
from warren.scheduler.names import bare_line
from warren.scheduler.problems import fault_of
from warren.sql.alarms import alarms
from warren.sql.alarms.alarms import AlarmStatus, MessageKind, RunAlarm
from warren.sql.engine import Database
from warren.sql.models import Alarm

#: A failure that takes this long blocks a thread that others need.
SLOW_SECONDS = 2.0
LEFT_ALONE_SECONDS = 60.0


class SlowTargets:
    """Remembers slow receivers for all sending threads; thread-safe.

    Args:
        clock: monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def note_failure(self, target_hash: str, *, began: float) -> None:
        """Record that sending to a target, begun at `began`, has just failed."""
        now = self.clock()
        if now - began >= SLOW_SECONDS:
            with self._lock:
                self._until[target_hash] = now + LEFT_ALONE_SECONDS

    def left_alone(self) -> frozenset[str]:
        """Return the targets that are skipped for now."""
        now = self.clock()
        with self._lock:
            self._until = {target: until for target, until in self._until.items() if until > now}
            return frozenset(self._until)


class Deadline:
    """Cuts the connections it watches after `seconds`, and raises TimeoutError."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.is_over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._timer.cancel()
        with self._lock:
            for connection in self._watched:
                connection.close()
            self._watched.clear()
            if self.is_over:
                raise TimeoutError(f"it took longer than {self._seconds:g} s") from error

    def watch(self, connection: socket.socket) -> None:
        """Watch a connection; with TLS, pass the underlying socket before the handshake."""
        with self._lock:
            # A second descriptor, because TLS takes over the first; shutdown works on both.
            self._watched.append(connection.dup())
            if self.is_over:
                self._cut()

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            self._cut()

    def _cut(self) -> None:
        for connection in self._watched:
            with suppress(OSError):  # it is already closed
                connection.shutdown(socket.SHUT_RDWR)


#: How long sending one alarm may take in all, and how long a claim lasts.
SEND_SECONDS = 30.0
CLAIM_MS = 90_000
#: The wait before the second try, and the longest wait; each is twice the one before.
BACKOFF_MS = (10_000, 600_000)
ROUND_SECONDS = 2.0
_ERROR_LENGTH, _ANSWER_LENGTH = 480, 255
_NOT_AGAIN = "; it is not sent again"

log = structlog.get_logger()


class RefusedForGood(OSError):
    """The receiver refuses the alarm, and would refuse it again."""


#: Sends an alarm with its id and returns what the receiver answered. Raises OSError or ValueError
#: on failure, RefusedForGood if another try is useless. The texts are stored with the alarm, so
#: they must hold no secret.
Send = Callable[[Alarm, Message], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSender:
    """The role that sends alarms.

    Attributes:
        kind: of the alarms to send.
        send: sends one alarm.
        context: the time zone and console address for the texts.
        now_ms: the database's clock.
        slow: slow receivers, shared by the threads of this kind.

    """

    kind: MessageKind
    database: Database
    send: Send
    context: MessageContext
    now_ms: Callable[[], int]
    slow: SlowTargets

    def run_round(self, now_ms: int) -> float:
        """Send one alarm; return the seconds until the next round, 0 when there may be more."""
        slow = self.slow.left_alone()
        alarm = self.database.write(
            lambda session: alarms.claim(
                session,
                self.kind,
                now_ms=now_ms,
                until_ms=now_ms + CLAIM_MS,
                except_targets=slow,
            )
        )
        if alarm is None:
            return ROUND_SECONDS
        began = self.slow.clock()
        try:
            answer = self.send(alarm, message(from_text(alarm.content), self.context))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one holds up no other
            self.slow.note_failure(alarm.target_hash, began=began)
            is_final = isinstance(error, RefusedForGood)
            words = _words(error) + (_NOT_AGAIN if is_final and not _is_test(alarm) else "")
            self._fail(alarm, words, is_final=is_final)
        else:
            self._settle(alarm, AlarmStatus.SENT, answer=bare_line(answer, _ANSWER_LENGTH))
            self._log_sent(alarm)
        return 0.0

    def _log_sent(self, alarm: Alarm) -> None:
        facts = {"alarm_id": alarm.id, "channel": alarm.channel, "run_id": alarm.run_id}
        if self.kind is MessageKind.RUN_END and not _is_test(alarm):
            log.debug("alarm_sent", **facts)  # there may be one for every run
        else:
            log.info("alarm_sent", **facts)

    def _fail(self, alarm: Alarm, error: str, *, is_final: bool) -> None:
        now_ms = self.now_ms()
        next_ms = now_ms + min(BACKOFF_MS[0] << min(alarm.tries - 1, 10), BACKOFF_MS[1])
        facts = {"alarm_id": alarm.id, "channel": alarm.channel, "error": error}
        if _is_test(alarm):
            self._settle(alarm, AlarmStatus.GIVEN_UP, error=error)
            log.warning("alarm_test_failed", **facts)
            return
        if is_final or next_ms >= alarm.created_at + GIVE_UP_MS:
            self._settle(alarm, AlarmStatus.GIVEN_UP, error=error)
            log.error("alarm_not_sent", **facts, tries=alarm.tries)
            return
        self.database.write(
            lambda session: alarms.settle(session, alarm, next_try_at=next_ms, error=error)
        )
        log.warning("alarm_delayed", **facts, retry_in_seconds=(next_ms - now_ms) // 1000)

    def _settle(
        self,
        alarm: Alarm,
        status: AlarmStatus,
        *,
        answer: str | None = None,
        error: str | None = None,
    ) -> None:
        outcome = RunAlarm.SENT if status is AlarmStatus.SENT else RunAlarm.GIVEN_UP
        is_sent, now_ms = status is AlarmStatus.SENT, self.now_ms()
        columns = {"sent_at": now_ms if is_sent else None, "answer": answer, "error": error}

        def unit(session: Session) -> None:
            if self.kind is MessageKind.RUN_END and is_sent and not _is_test(alarm):
                alarms.forget(session, alarm)
                return
            noted = alarms.settle(session, alarm, status=status, next_try_at=now_ms, **columns)
            if noted and self.kind is not MessageKind.RUN_END:
                alarms.mark_runs(session, run_ids_of(session, alarm), outcome)

        self.database.write(unit)


def _is_test(alarm: Alarm) -> bool:
    """Return whether an alarm is a test, which people wait for: it is tried once."""
    return alarm.subject_key.startswith(alarms.TEST)


def _words(error: Exception) -> str:
    """Return an error's text, or only its type if it is unexpected and so may hold a secret."""
    text = fault_of(error, _ERROR_LENGTH) if isinstance(error, OSError | ValueError) else ""
    return text or type(error).__name__
