"""Lets executors in: queues declared, `Welcome` or `Refused` sent, a held address contested.

A second boot on one address is refused when the first still answers `Beat` within two seconds, not
by age. One scheduler decides, by a guarded UPDATE of the registry row.
"""

import threading
import time
from collections.abc import Sequence

import structlog
from sqlalchemy.orm import Session

from broker import topology
from broker.messages import Beat, Heartbeat, Refused, ToExecutor, Welcome
from broker.rpc import Requester
from broker.signing import Direction, Sealer
from broker.transport import Admin, Consumer, Outgoing, Publisher
from scheduler.registration import registration
from scheduler.roster import Roster
from sql import apps, presence
from sql.engine import Database

#: How long the holder of an address has to answer before another boot gets it.
CHALLENGE_SECONDS = 2.0
#: How long a word to an executor is good for.
VALID_SECONDS = 60.0

log = structlog.get_logger()


class Greeter:
    """Answers heartbeats; a role of its own because a challenge takes time.

    Args:
        beats: the consumer of heartbeats; a new connection means that queues may be gone.
        quorum: whether run queues are quorum queues.

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
    ) -> None:
        self._database = database
        self._admin = admin
        self._publisher = publisher
        self._sealer = sealer
        self._requester = requester
        self._roster = roster
        self._beats = beats
        self._quorum = quorum
        self._waiting: dict[tuple[str, str, str], Heartbeat] = {}
        self._arrived = threading.Condition()
        self._declared: set[tuple[str, str, str]] = set()
        self._generation = -1

    def greet(self, beat: Heartbeat) -> None:
        """Answer this heartbeat soon; never waits."""
        with self._arrived:
            self._waiting[beat.app, beat.address, beat.boot_id] = beat
            self._arrived.notify()

    def tick(self, now_ms: int) -> float:
        """Answer the heartbeats that wait; waits up to half a second for the first."""
        beats = self._take()
        if not beats:
            return 0
        self._forget_declared_after_reconnect()
        holders = {
            (beat.app, beat.address, beat.boot_id): self._holder(beat, now_ms) for beat in beats
        }
        self._declare(beats)
        answers: list[Outgoing] = []
        contested: list[tuple[Heartbeat, str]] = []
        for beat in beats:
            holder = holders[beat.app, beat.address, beat.boot_id]
            if holder == beat.boot_id:
                answers.append(self._welcome(beat, now_ms))
            else:
                contested.append((beat, holder))
        answers += self._contest(contested, now_ms)
        self._publisher.publish(answers).wait(1.0)
        return 0

    def _take(self) -> list[Heartbeat]:
        with self._arrived:
            if not self._waiting:
                self._arrived.wait(0.5)
            beats, self._waiting = list(self._waiting.values()), {}
            return beats

    def _forget_declared_after_reconnect(self) -> None:
        if self._beats.generation != self._generation:
            self._generation = self._beats.generation
            self._declared.clear()

    def _holder(self, beat: Heartbeat, now_ms: int) -> str:
        """Return the boot that holds the address; the roster's word is good for a known one."""
        if self._roster.holder(beat.app, beat.address) == beat.boot_id and self._is_declared(beat):
            return beat.boot_id
        return self._database.write(lambda session: _hold(session, beat, now_ms))

    def _is_declared(self, beat: Heartbeat) -> bool:
        return (beat.app, beat.address, beat.boot_id) in self._declared

    def _declare(self, beats: Sequence[Heartbeat]) -> None:
        new = [beat for beat in beats if not self._is_declared(beat)]
        for beat in new:
            self._admin.declare_queues(
                [
                    topology.run_queue(beat.app, beat.address, quorum=self._quorum),
                    topology.command_queue(beat.app, beat.address, beat.boot_id),
                ]
            )
            self._declared.add((beat.app, beat.address, beat.boot_id))

    def _welcome(self, beat: Heartbeat, now_ms: int) -> Outgoing:
        if self._roster.holder(beat.app, beat.address) != beat.boot_id:
            log.info("executor_joined", app=beat.app, address=beat.address, boot_id=beat.boot_id)
            self._roster.admit(beat.app, beat.address, beat.boot_id, beat)
        self._roster.hear(beat)
        return self._word(beat, Welcome(boot_id=beat.boot_id, now_ms=now_ms))

    def _contest(self, contested: Sequence[tuple[Heartbeat, str]], now_ms: int) -> list[Outgoing]:
        if not contested:
            return []
        started = time.monotonic()
        answers = self._requester.ask(
            [(beat.app, beat.address, holder, _are_you_there) for beat, holder in contested],
            CHALLENGE_SECONDS,
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
