"""The alarms' roles, wired, each with its own thread, so scheduling never waits for them.

completion ─> rows ─> rate limiter ─> rows ─> mailer | webhooks        absence, ailments ─> rows
completion ─> rows ─> run webhooks
"""

from collections.abc import Callable

from warren.broker.signing import ClusterKeys
from warren.scheduler.alarms.absence import AbsenceWatch
from warren.scheduler.alarms.ailments import AilmentWatch
from warren.scheduler.alarms.calendar_ends import CalendarWatch
from warren.scheduler.alarms.channels.mail import Mailer
from warren.scheduler.alarms.channels.message import MessageContext
from warren.scheduler.alarms.channels.sender import AlarmSender, Send, SlowTargets
from warren.scheduler.alarms.channels.webhook import SignedWebhook, Webhook
from warren.scheduler.alarms.epoch_watch import EpochWatch
from warren.scheduler.alarms.events import AlarmPolicy
from warren.scheduler.alarms.rate_limiter import AlarmRateLimiter
from warren.scheduler.membership.roster import Roster
from warren.scheduler.rounds import pending_work
from warren.scheduler.rounds.loop import Loop
from warren.scheduler.rounds.pending_work import PendingWork, WakeCondition
from warren.scheduler.rounds.role_loops import RoleLoops
from warren.sql.alarms.alarms import MessageKind, secret_of
from warren.sql.engine import Database
from warren.sql.models import Alarm

LONGEST_SECONDS = 5.0
#: There may be a message for every run, and each occupies a thread while it is sent.
RUN_WEBHOOK_THREADS = 4


class AlarmRoles:
    """The alarm roles of one scheduler; without a mail server it leaves e-mails to others."""

    def __init__(
        self,
        policy: AlarmPolicy,
        *,
        database: Database,
        roster: Roster,
        now_ms: Callable[[], int],
        cluster_id: str,
        work: PendingWork,
        keys: ClusterKeys,
    ) -> None:
        self._policy = policy
        self._database = database
        self._now_ms = now_ms
        limiter = AlarmRateLimiter(
            database=database, per_hour=policy.per_hour, on_ready=self._wake_senders
        )
        watch = AbsenceWatch(
            database=database,
            roster=roster,
            absence_seconds=policy.absence_seconds,
            defaults=policy.defaults,
        )
        ailments = AilmentWatch(database=database, roster=roster, defaults=policy.defaults)
        self.loops = RoleLoops(now_ms, work)
        self._add("alarm rate limiter", limiter.run_round, pending_work.alarm_rate_limiter)
        self.loops.add("absence watch", watch.run_round, longest_seconds=LONGEST_SECONDS)
        self.loops.add("ailment watch", ailments.run_round, longest_seconds=LONGEST_SECONDS)
        calendars = CalendarWatch(database=database, defaults=policy.defaults)
        self.loops.add("calendar watch", calendars.run_round, longest_seconds=LONGEST_SECONDS)
        new_epochs = EpochWatch(database=database, roster=roster, defaults=policy.defaults)
        self.loops.add("epoch watch", new_epochs.run_round, longest_seconds=LONGEST_SECONDS)
        post = Webhook(policy.webhook_allow, secret_of=self._secret_of)
        webhook = self._sender(post.send, MessageKind.WEBHOOK, SlowTargets())
        self._senders = [self._add("webhooks", webhook.run_round, pending_work.webhooks)]
        slow = SlowTargets()
        for number in range(1, RUN_WEBHOOK_THREADS + 1):
            signed = self._sender(
                SignedWebhook(post, keys.of_webhooks).send, MessageKind.RUN_END, slow
            )
            self._add(f"run webhooks {number}", signed.run_round, pending_work.run_webhooks)
        if policy.mail_server is not None:
            mail = Mailer(policy.mail_server, domain=f"{cluster_id}.warren")
            mailer = self._sender(mail.send, MessageKind.MAIL, SlowTargets())
            self._senders.append(self._add("mailer", mailer.run_round, pending_work.mailer))

    def _add(self, name: str, run_round: Callable[[int], float], wanted: WakeCondition) -> Loop:
        return self.loops.add_resting(name, run_round, wanted, longest_seconds=LONGEST_SECONDS)

    def _sender(self, send: Send, kind: MessageKind, slow: SlowTargets) -> AlarmSender:
        return AlarmSender(
            kind=kind,
            database=self._database,
            send=send,
            context=MessageContext(self._policy.timezone, self._policy.console_url),
            now_ms=self._now_ms,
            slow=slow,
        )

    def _secret_of(self, alarm: Alarm) -> str:
        own = self._database.read(lambda session: secret_of(session, alarm))
        usual = self._policy.defaults
        return own or (usual.secret if usual.webhook == alarm.target else "")

    def _wake_senders(self) -> None:
        for sender in self._senders:
            sender.wake()
