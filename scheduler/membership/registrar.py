"""Admits executors: declares their queues, sends `Welcome` or `Refused`, settles address disputes.

Apps are created by people and have a bounded number of addresses. An executor of an unknown app, or
one over the bound, gets no queue, no row and no answer.

A second boot on one address is refused if the first still answers `Beat` within two seconds; age
does not matter. One scheduler decides, by a guarded UPDATE of the registry row.
"""

import threading
import time
from collections.abc import Sequence

import structlog
from sqlalchemy.orm import Session

from broker import topology
from broker.errors import TopologyError
from broker.messages.to_executor import Beat, Refused, ToExecutor, Welcome
from broker.messages.to_scheduler import Heartbeat
from broker.rpc import Requester
from broker.transport import Admin, Confirm, Consumer
from scheduler.command_sender import Command, CommandSender
from scheduler.membership.refusal_log import RefusalLog
from scheduler.membership.registration import registration
from scheduler.membership.roster import Roster
from scheduler.node_context import NodeContext
from scheduler.rounds.loop import NAP_SECONDS, WakeUp
from sql.registry import apps, presence

#: Addresses that an app may have, those of executors that ended within a day included.
ADDRESS_LIMIT = 1_000
#: How long the broker may take to confirm a reply; only a repair depends on it.
CONFIRM_SECONDS = 1.0

log = structlog.get_logger()


class Registrar:
    """Answers heartbeats, in a thread of its own because a challenge takes time.

    Args:
        beats: the consumer of heartbeats; a new connection means that queues may be gone.
        quorum: whether run queues are quorum queues.

    """

    def __init__(
        self,
        *,
        context: NodeContext,
        commands: CommandSender,
        admin: Admin,
        requester: Requester,
        roster: Roster,
        beats: Consumer,
        quorum: bool,
    ) -> None:
        self._context = context
        self._commands = commands
        self._admin = admin
        self._requester = requester
        self._roster = roster
        self._beats = beats
        self._quorum = quorum
        self._challenge_seconds = context.timeouts.answer
        self._waiting: dict[tuple[str, str, str], Heartbeat] = {}
        self._lock = threading.Lock()
        self._declared: set[tuple[str, str, str]] = set()
        self._missing: set[tuple[str, str]] = set()
        self._generation = -1
        self._refusals = RefusalLog(context.monotonic)
        #: Set when a heartbeat waits for its answer.
        self.awake = WakeUp()

    def greet(self, beat: Heartbeat) -> None:
        """Queue a heartbeat to be answered soon; never waits."""
        with self._lock:
            self._waiting[beat.app, beat.address, beat.boot_id] = beat
        self.awake.set()

    def note_missing(self, app: str, address: str) -> None:
        """Declare an executor's queues again with its next heartbeat: one of them is not there."""
        with self._lock:
            self._missing.add((app, address))

    def tick(self, now_ms: int) -> float:
        """Answer the heartbeats that wait; return the seconds until the next round."""
        beats = self._take()
        self._forget_what_is_gone()
        welcome: list[Heartbeat] = []
        contested: list[tuple[Heartbeat, str]] = []
        for beat in beats:
            holder = self._holder(beat, now_ms)
            if not holder or not self._declare(beat):
                continue
            if holder == beat.boot_id:
                welcome.append(beat)
            else:
                contested.append((beat, holder))
        # A challenge takes time, and welcome executors need not wait for it.
        self._publish([self._welcome(beat) for beat in welcome], welcome)
        self._publish(self._contest(contested, now_ms), [beat for beat, _ in contested])
        return NAP_SECONDS

    def _take(self) -> list[Heartbeat]:
        with self._lock:
            beats, self._waiting = list(self._waiting.values()), {}
            return beats

    def _forget_what_is_gone(self) -> None:
        with self._lock:
            missing, self._missing = self._missing, set()
        if self._beats.generation != self._generation:
            self._generation = self._beats.generation
            self._declared.clear()
        self._declared = {key for key in self._declared if key[:2] not in missing}

    def _holder(self, beat: Heartbeat, now_ms: int) -> str:
        """Return the boot that holds the address; for a known boot the roster is enough.

        Empty when the executor is not welcome.
        """
        if self._is_settled(beat):
            return beat.boot_id
        holder, reason = self._context.database.write(lambda session: _hold(session, beat, now_ms))
        if reason:
            self._refusals.note(beat.app, beat.address, reason)
        return holder

    def _is_settled(self, beat: Heartbeat) -> bool:
        """Whether this boot was let in here before, and its queues are there as far as we know."""
        holds = self._roster.holder(beat.app, beat.address) == beat.boot_id
        return holds and (beat.app, beat.address, beat.boot_id) in self._declared

    def _declare(self, beat: Heartbeat) -> bool:
        """Declare an executor's queues unless they are settled; False when that cannot be done."""
        if self._is_settled(beat):
            return True
        queues = [
            topology.run_queue(beat.app, beat.address, quorum=self._quorum),
            topology.command_queue(beat.app, beat.address, beat.boot_id),
        ]
        try:
            self._admin.declare_queues(queues)
        except TopologyError as error:
            # One queue with other arguments must not keep the others waiting.
            log.warning("queue_not_declared", app=beat.app, address=beat.address, error=str(error))
            return False
        self._declared.add((beat.app, beat.address, beat.boot_id))
        return True

    def _welcome(self, beat: Heartbeat) -> Command:
        if self._roster.holder(beat.app, beat.address) != beat.boot_id:
            log.info("executor_joined", app=beat.app, address=beat.address, boot_id=beat.boot_id)
            self._roster.admit(beat)
            self._context.wake.set()
        # Executors set their clocks by it, and a round may have waited for database or broker.
        welcome = Welcome(
            boot_id=beat.boot_id,
            now_ms=self._context.now_ms(),
            heartbeat_sent_at_ms=beat.sent_at_ms,
        )
        return _word(beat, welcome)

    def _publish(self, words: Sequence[Command], beats: Sequence[Heartbeat]) -> None:
        """Send a reply to each heartbeat; a returned reply means that the queues are missing."""
        if not words:
            return
        fates = self._commands.send(words).wait(CONFIRM_SECONDS)
        for beat, fate in zip(beats, fates, strict=True):
            if fate is Confirm.RETURNED:
                self.note_missing(beat.app, beat.address)

    def _contest(self, contested: Sequence[tuple[Heartbeat, str]], now_ms: int) -> list[Command]:
        if not contested:
            return []
        started = time.monotonic()
        # After a broker was wiped, silence for lack of a queue would prove nothing.
        self._admin.declare_queues(
            [topology.command_queue(beat.app, beat.address, holder) for beat, holder in contested]
        )
        answers = self._requester.ask(
            [(beat.app, beat.address, holder, _are_you_there) for beat, holder in contested],
            self._challenge_seconds,
        )
        now_ms += int((time.monotonic() - started) * 1000)
        return [
            self._refuse(beat) if answer is not None else self._replace(beat, holder, now_ms)
            for (beat, holder), answer in zip(contested, answers, strict=True)
        ]

    def _refuse(self, beat: Heartbeat) -> Command:
        log.warning("executor_refused", app=beat.app, address=beat.address, boot_id=beat.boot_id)
        reason = f"address {beat.address} is held by another living executor"
        return _word(beat, Refused(boot_id=beat.boot_id, reason=reason))

    def _replace(self, beat: Heartbeat, old_boot_id: str, now_ms: int) -> Command:
        """Give the address to the new boot, unless another scheduler has decided meanwhile."""
        self._context.database.write(
            lambda session: presence.supersede(
                session, registration(beat, now_ms), old_boot_id=old_boot_id
            )
        )
        holder = self._context.database.read(
            lambda session: presence.holder(session, presence.EXECUTOR, beat.app, beat.address)
        )
        return self._welcome(beat) if holder == beat.boot_id else self._refuse(beat)


def _word(beat: Heartbeat, word: ToExecutor) -> Command:
    return Command(app=beat.app, address=beat.address, boot_id=beat.boot_id, message=word)


def _are_you_there(question_id: str, reply_to: str) -> Beat:
    return Beat(question_id=question_id, reply_to=reply_to)


def _hold(session: Session, beat: Heartbeat, now_ms: int) -> tuple[str, str]:
    """Return the boot that holds the address, or why none can."""
    app = apps.lock(session, beat.app)  # so that schedulers do not count at the same time
    if app is None:
        return "", f"there is no app {beat.app}; make it: warren apps add {beat.app}"
    holder = presence.holder(session, presence.EXECUTOR, beat.app, beat.address)
    if holder is None and presence.count(session, presence.EXECUTOR, beat.app) >= ADDRESS_LIMIT:
        return "", f"app {beat.app} has {ADDRESS_LIMIT} addresses already"
    return holder or presence.hold(session, registration(beat, now_ms)), ""
