"""Lets executors in: queues declared, `Welcome` or `Refused` sent, a held address contested.

A second boot on one address is refused when the first still answers `Beat` within two seconds, not
by age. One scheduler decides, by a guarded UPDATE of the registry row.
"""

import threading
import time
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy.orm import Session

from broker import topology
from broker.errors import TopologyError
from broker.messages import Beat, Heartbeat, Refused, ToExecutor, Welcome
from broker.rpc import Requester
from broker.signing import Direction, Sealer
from broker.transport import Admin, Confirm, Consumer, Outgoing, Publisher
from scheduler.patience import Patience
from scheduler.registration import registration
from scheduler.roster import Roster
from sql import apps, presence
from sql.engine import Database

#: How long a word to an executor is good for.
VALID_SECONDS = 60.0
#: How long the broker may take to confirm a word; nothing depends on it but a repair.
CONFIRM_SECONDS = 1.0

log = structlog.get_logger()


class Greeter:
    """Answers heartbeats; a role of its own because a challenge takes time.

    Args:
        beats: the consumer of heartbeats; a new connection means that queues may be gone.
        quorum: whether run queues are quorum queues.
        patience: `answer` is how long the holder of an address may take before another boot has it.
        on_joined: called when an executor was let in.

    """

    def __init__(
        self,
        *,
        database: Database,
        admin: Admin,
        publisher: Publisher,
        sealer: Sealer,
        requester: Requester,
        roster: Roster,
        beats: Consumer,
        quorum: bool,
        patience: Patience,
        on_joined: Callable[[], None],
    ) -> None:
        self._database = database
        self._admin = admin
        self._publisher = publisher
        self._sealer = sealer
        self._requester = requester
        self._roster = roster
        self._beats = beats
        self._quorum = quorum
        self._challenge_seconds = patience.answer
        self._on_joined = on_joined
        self._waiting: dict[tuple[str, str, str], Heartbeat] = {}
        self._arrived = threading.Condition()
        self._declared: set[tuple[str, str, str]] = set()
        self._missing: set[tuple[str, str]] = set()
        self._generation = -1

    def greet(self, beat: Heartbeat) -> None:
        """Answer this heartbeat soon; never waits."""
        with self._arrived:
            self._waiting[beat.app, beat.address, beat.boot_id] = beat
            self._arrived.notify()

    def note_missing(self, app: str, address: str) -> None:
        """Declare an executor's queues again with its next heartbeat: one of them is not there."""
        with self._arrived:
            self._missing.add((app, address))

    def tick(self, now_ms: int) -> float:
        """Answer the heartbeats that wait; waits up to half a second for the first."""
        beats = self._take()
        self._forget_what_is_gone()
        welcome: list[Heartbeat] = []
        contested: list[tuple[Heartbeat, str]] = []
        for beat in beats:
            holder = self._holder(beat, now_ms)
            if not self._declare(beat):
                continue
            if holder == beat.boot_id:
                welcome.append(beat)
            else:
                contested.append((beat, holder))
        # A challenge takes its time, and who is welcome need not wait for it.
        self._publish([self._welcome(beat, now_ms) for beat in welcome], welcome)
        self._publish(self._contest(contested, now_ms), [beat for beat, _ in contested])
        return 0

    def _take(self) -> list[Heartbeat]:
        with self._arrived:
            if not self._waiting:
                self._arrived.wait(0.5)
            beats, self._waiting = list(self._waiting.values()), {}
            return beats

    def _forget_what_is_gone(self) -> None:
        with self._arrived:
            missing, self._missing = self._missing, set()
        if self._beats.generation != self._generation:
            self._generation = self._beats.generation
            self._declared.clear()
        self._declared = {key for key in self._declared if key[:2] not in missing}

    def _holder(self, beat: Heartbeat, now_ms: int) -> str:
        """Return the boot that holds the address; the roster's word is good for a known one."""
        if self._is_settled(beat):
            return beat.boot_id
        return self._database.write(lambda session: _hold(session, beat, now_ms))

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

    def _welcome(self, beat: Heartbeat, now_ms: int) -> Outgoing:
        if self._roster.holder(beat.app, beat.address) != beat.boot_id:
            log.info("executor_joined", app=beat.app, address=beat.address, boot_id=beat.boot_id)
            self._roster.admit(beat.app, beat.address, beat.boot_id, beat)
            self._on_joined()
        return self._word(beat, Welcome(boot_id=beat.boot_id, now_ms=now_ms))

    def _publish(self, words: Sequence[Outgoing], beats: Sequence[Heartbeat]) -> None:
        """Send one word for each heartbeat; where one comes back the queues are not there."""
        if not words:
            return
        fates = self._publisher.publish(words).wait(CONFIRM_SECONDS)
        for beat, fate in zip(beats, fates, strict=True):
            if fate is Confirm.RETURNED:
                self.note_missing(beat.app, beat.address)

    def _contest(self, contested: Sequence[tuple[Heartbeat, str]], now_ms: int) -> list[Outgoing]:
        if not contested:
            return []
        started = time.monotonic()
        # After a broker was wiped, silence for want of a queue would be no proof.
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

    def _refuse(self, beat: Heartbeat) -> Outgoing:
        log.warning("executor_refused", app=beat.app, address=beat.address, boot_id=beat.boot_id)
        reason = f"address {beat.address} is held by another living executor"
        return self._word(beat, Refused(boot_id=beat.boot_id, reason=reason))

    def _replace(self, beat: Heartbeat, old_boot_id: str, now_ms: int) -> Outgoing:
        """Give the address to the new boot, unless another scheduler has decided meanwhile."""
        self._database.write(
            lambda session: presence.supersede(
                session, registration(beat, now_ms), old_boot_id=old_boot_id
            )
        )
        holder = self._database.read(
            lambda session: presence.holder(session, presence.EXECUTOR, beat.app, beat.address)
        )
        return self._welcome(beat, now_ms) if holder == beat.boot_id else self._refuse(beat)

    def _word(self, beat: Heartbeat, word: ToExecutor) -> Outgoing:
        return self._sealer.seal(
            word,
            exchange=topology.TRIGGER_EXCHANGE,
            routing_key=topology.command_queue(beat.app, beat.address, beat.boot_id).name,
            address=beat.address,
            direction=Direction.TO_EXECUTOR,
            valid_seconds=VALID_SECONDS,
            durable=False,
        )


def _are_you_there(question_id: str, reply_to: str) -> Beat:
    return Beat(question_id=question_id, reply_to=reply_to)


def _hold(session: Session, beat: Heartbeat, now_ms: int) -> str:
    apps.ensure(session, beat.app)
    return presence.hold(session, registration(beat, now_ms))
