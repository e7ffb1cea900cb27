"""The alarms' roles, wired, each with a thread: nobody who schedules waits for them.

completion ─> rows ─> gate ─> rows ─> mailer | webhooks        absence ─> rows
"""

import time
from collections.abc import Callable

from scheduler.alarms.absence import AbsenceWatch
from scheduler.alarms.gate import AlarmGate
from scheduler.alarms.mail import Mailer
from scheduler.alarms.message import Place
from scheduler.alarms.policy import AlarmPolicy
from scheduler.alarms.sender import AlarmSender, Send
from scheduler.alarms.webhook import Webhook
from scheduler.loop import Loop
from scheduler.roster import Roster
from sql.engine import Database

LONGEST_SECONDS = 5.0


class AlarmRoles:
    """What one scheduler does about alarms; without a mail server it leaves e-mails to others."""

    def __init__(
        self,
        policy: AlarmPolicy,
        *,
        database: Database,
        roster: Roster,
        now_ms: Callable[[], int],
        cluster_id: str,
    ) -> None:
        self._policy = policy
        self._database = database
        self._now_ms = now_ms
        gate = AlarmGate(database=database, per_hour=policy.per_hour, on_ready=self._wake_senders)
        watch = AbsenceWatch(
            database=database,
            roster=roster,
            absence_seconds=policy.absence_seconds,
            defaults=policy.defaults,
        )
        self._senders = [self._sender("webhooks", Webhook().send, mails=False)]
        if policy.mail_server is not None:
            mailer = Mailer(policy.mail_server, domain=f"{cluster_id}.warren")
            self._senders.append(self._sender("mailer", mailer.send, mails=True))
        self._loops = [
            self._loop("alarm gate", gate.tick),
            self._loop("absence watch", watch.tick),
            *self._senders,
        ]

    def start(self) -> None:
        """Begin."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Ask for no further round."""
        for loop in self._loops:
            loop.stop()

    def join(self, seconds: float) -> list[str]:
        """Wait for the rounds under way; return the roles that are still busy after `seconds`.

        What such a role is sending is sent again, by somebody else, when its claim has run out.
        """
        give_up_at = time.monotonic() + seconds
        return [
            loop.name
            for loop in self._loops
            if not loop.join(max(0.0, give_up_at - time.monotonic()))
        ]

    @property
    def failing_roles(self) -> list[str]:
        """The roles whose last round failed."""
        return [loop.name for loop in self._loops if loop.failing]

    def _sender(self, name: str, send: Send, *, mails: bool) -> Loop:
        sender = AlarmSender(
            mails=mails,
            database=self._database,
            send=send,
            place=Place(self._policy.timezone, self._policy.console_url),
            now_ms=self._now_ms,
        )
        return self._loop(name, sender.tick)

    def _wake_senders(self) -> None:
        for sender in self._senders:
            sender.wake()

    def _loop(self, name: str, tick: Callable[[int], float]) -> Loop:
        return Loop(name, lambda: tick(self._now_ms()), longest_seconds=LONGEST_SECONDS)
