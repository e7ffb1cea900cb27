"""Admits executors: declares their queues, sends `Welcome` or `Refused`, settles address disputes.

Apps are created by people and have a bounded number of addresses. An executor of an unknown app, or
one over the bound, gets no queue, no row and no answer; it is logged once a minute per app.

A second boot on one address is refused if the first still answers `Beat` within two seconds; age
does not matter. It waits while the first is a gateway's that may be back in a moment. One scheduler
decides, by a guarded UPDATE of the registry row. The row also keeps the broker account that first
spoke for the boot; any other is refused.

An executor's key is valid for one app only. Its holder may send heartbeats of ever new boots, but
must not delay the executors of other apps. So a bounded number of heartbeats wait for an answer,
and apps take turns.

A welcome tells the epoch of the database; heartbeats say which is the newest that executors know.
"""

import hmac
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import structlog
from sqlalchemy.orm import Session

from warren.broker import topology
from warren.broker.codec import fingerprint_of
from warren.broker.errors import Forged, Malformed, QueueUnavailable, TopologyError
from warren.broker.messages import (
    Beat,
    Boot,
    CatalogueAnswer,
    Command,
    Heartbeat,
    NotWelcome,
    Refused,
    Welcome,
)
from warren.broker.rpc import AddressedQuestion, Requester
from warren.broker.signing import ClusterKeys
from warren.broker.transport import Admin, Confirm
from warren.scheduler.membership.catalogues import Catalogues
from warren.scheduler.membership.registration import BootAccounts, registration
from warren.scheduler.membership.roster import Roster
from warren.scheduler.node_context import AddressedCommand, CommandSender, NodeContext
from warren.scheduler.rounds import NAP_SECONDS, MinuteNotes
from warren.sql.engine import Database
from warren.sql.errors import DatabaseUnavailable
from warren.sql.registry import apps, presence


class ToldEpochs:
    """Epochs on their way to executors and back. For any thread.

    So a scheduler that reaches only an old primary learns that another server has taken its place.
    """

    def __init__(self, database: Database, keys: ClusterKeys, cluster_id: str) -> None:
        self._database = database
        self._proofs = lru_cache(maxsize=8)(
            lambda epoch: keys.epoch_proofs(cluster_id, epoch) if epoch else ("",)
        )

    def current(self) -> tuple[int, str]:
        """Return the epoch of the database, and its proof."""
        epoch = self._database.epoch
        return epoch, self._proofs(epoch)[0]

    def hear(self, beats: Iterable[Heartbeat]) -> None:
        """Leave the database's server if an executor has seen a newer epoch than it has."""
        for beat in beats:
            if beat.epoch > self._database.epoch and self._is_proven(beat):
                self._database.learn_epoch(beat.epoch, f"{beat.app}/{beat.address}")

    def _is_proven(self, beat: Heartbeat) -> bool:
        given = beat.epoch_proof.encode()
        return any(hmac.compare_digest(given, one.encode()) for one in self._proofs(beat.epoch))


#: Boots whose queues are remembered as declared. Beyond that all are declared again, so that boots
#: that exist only in the heartbeats of a stolen key take up no memory.
BOOT_LIMIT = 10_000

log = structlog.get_logger()


class ExecutorQueues:
    """The queues of boots that were admitted here. `note_missing` may be called by any thread.

    Args:
        losses: returns a value that changes whenever exchanges and queues may be gone.
        restore: declares the exchanges again, and the queues of this scheduler.
        quorum: whether they are quorum queues.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        admin: Admin,
        *,
        losses: Callable[[], tuple[int, ...]],
        restore: Callable[[], None],
        quorum: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = admin
        self._losses = losses
        self._restore = restore
        self._quorum = quorum
        self._declared: set[Boot] = set()
        self._missing: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._seen_losses: tuple[int, ...] = ()
        self._undeclared = MinuteNotes(clock)

    def note_missing(self, app: str, address: str) -> None:
        """Declare an executor's queues again at its next heartbeat, because one is missing."""
        with self._lock:
            self._missing.add((app, address))

    def forget_missing(self) -> None:
        """Forget the declarations of queues that may be gone; restore everything else at once.

        A broker that has lost its data has no exchange, and a deleted exchange takes its bindings
        with it. Without them no message arrives.

        Raises:
            BrokerUnavailable: the broker does not answer; call this again.

        """
        losses = self._losses()
        if losses != self._seen_losses:
            self._restore()
            self._seen_losses = losses
            self._declared.clear()
        with self._lock:
            missing, self._missing = self._missing, set()
        self._declared = {boot for boot in self._declared if boot[:2] not in missing}

    def are_there(self, boot: Boot) -> bool:
        """Return whether a boot's queues exist, as far as is known."""
        return boot in self._declared

    def declare(self, boot: Boot) -> bool:
        """Declare a boot's queues unless they exist; return False if one cannot be used."""
        if boot in self._declared:
            return True
        app, address, boot_id = boot
        queues = [
            topology.run_queue(app, address, quorum=self._quorum),
            topology.command_queue(app, address, boot_id, quorum=self._quorum),
        ]
        try:
            self._admin.declare_queues(queues)
        except (TopologyError, QueueUnavailable) as error:
            # One queue with other arguments must not delay the others.
            self._undeclared.note(app, address, error)
            return False
        if len(self._declared) >= BOOT_LIMIT:
            self._declared.clear()
        self._declared.add(boot)
        return True

    def declare_commands(self, boot: Boot) -> bool:
        """Declare a boot's command queue, even if it was before; return False if it is away."""
        try:
            self._admin.declare_queues([topology.command_queue(*boot, quorum=self._quorum)])
        except QueueUnavailable as error:
            self._undeclared.note(boot.app, boot.address, error)
            return False
        return True

    def tell_undeclared(self) -> None:
        """Log, once a minute, whose queues could not be declared since the last time."""
        if facts := self._undeclared.due():
            log.warning("queue_not_declared", **facts)


AGAIN_SECONDS = 60.0
#: The most apps that are remembered; only holders of an app's key can appear under its name.
APPS = 1_000


class RefusalLog:
    """Logs refused executors. `clock` is monotonic. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._noted_at: dict[str, float] = {}

    def note(self, app: str, address: str, reason: str) -> bool:
        """Log a refused executor; return False if its app was logged lately, so it is not now."""
        now = self._clock()
        if now - self._noted_at.get(app, float("-inf")) < AGAIN_SECONDS:
            return False
        if len(self._noted_at) >= APPS:
            self._noted_at.clear()
        self._noted_at[app] = now
        log.warning("executor_not_welcomed", app=app, address=address, reason=reason)
        return True


#: Boots that wait for one address besides its holder: an executor and one that takes its place.
BOOTS_OF_AN_ADDRESS = 2
#: Heartbeats that one round answers; a newcomer costs some milliseconds.
OF_A_ROUND = 200


@dataclass(frozen=True, slots=True)
class Greeting:
    """A heartbeat, and the broker's account that sent it."""

    beat: Heartbeat
    account: str

    @property
    def boot(self) -> Boot:
        """The boot that sent it."""
        return Boot(self.beat.app, self.beat.address, self.beat.boot_id)


class Greetings:
    """The latest heartbeat of each boot that waits. For use under a lock.

    No more than `address_limit` addresses of one app wait.
    """

    def __init__(self, address_limit: int) -> None:
        self._address_limit = address_limit
        self._waiting: dict[str, dict[str, dict[str, Greeting]]] = {}

    def __bool__(self) -> bool:
        """Whether any wait."""
        return bool(self._waiting)

    def add(self, greeting: Greeting, *, is_holder: bool) -> bool:
        """Queue a heartbeat; False if too many others wait. A holder is always queued.

        Of several accounts that send heartbeats of one boot, the first is answered.
        """
        beat = greeting.beat
        of_app = self._waiting.setdefault(beat.app, {})
        if beat.address not in of_app and len(of_app) >= self._address_limit and not is_holder:
            return False
        boots = of_app.setdefault(beat.address, {})
        earlier = boots.get(beat.boot_id)
        if earlier is None and len(boots) >= BOOTS_OF_AN_ADDRESS and not is_holder:
            return False
        if earlier is None or earlier.account == greeting.account:
            boots[beat.boot_id] = greeting
        return True

    def take(self) -> deque[Greeting]:
        """Take the heartbeats for the next round: one of each app, then another of each."""
        taken: deque[Greeting] = deque()
        by_app = {
            app: deque(boot for boots in of_app.values() for boot in boots.values())
            for app, of_app in self._waiting.items()
        }
        while by_app and len(taken) < OF_A_ROUND:
            for app, greetings in list(by_app.items()):
                taken.append(greetings.popleft())
                if not greetings:
                    del by_app[app]
        self._waiting = {}
        self.put_back(greeting for greetings in by_app.values() for greeting in greetings)
        return taken

    def put_back(self, greetings: Iterable[Greeting]) -> None:
        """Queue heartbeats again, unless their boots have sent newer ones."""
        for greeting in greetings:
            beat = greeting.beat
            boots = self._waiting.setdefault(beat.app, {}).setdefault(beat.address, {})
            boots.setdefault(beat.boot_id, greeting)


#: The most addresses that an app may have, including executors that are gone and not forgotten.
ADDRESS_LIMIT = 1_000
#: How long the broker may take to confirm a reply; only a repair depends on it.
CONFIRM_SECONDS = 1.0


class Registrar:
    """Answers heartbeats, in a thread of its own because a challenge takes time.

    `log_store` is the kind of the log store, of which executors are told; empty = there is none.
    """

    def __init__(
        self,
        *,
        context: NodeContext,
        commands: CommandSender,
        queues: ExecutorQueues,
        requester: Requester,
        roster: Roster,
        accounts: BootAccounts,
        catalogues: Catalogues,
        epochs: ToldEpochs,
        log_store: str = "",
    ) -> None:
        self._context = context
        self._epochs = epochs
        self._log_store = log_store
        self._commands = commands
        self._queues = queues
        self._requester = requester
        self._roster = roster
        self._accounts = accounts
        self._catalogues = catalogues
        self._challenge_seconds = context.timeouts.answer
        self._waiting = Greetings(ADDRESS_LIMIT)
        self._lock = threading.Lock()
        self._refusals = RefusalLog(context.monotonic)

    def greet(self, beat: Heartbeat, account: str) -> None:
        """Queue a heartbeat to be answered soon; never waits.

        If too many boots of its app or address wait already, only holders are queued.
        """
        is_holder = self._roster.holder(beat.app, beat.address) == beat.boot_id
        with self._lock:
            if not self._waiting.add(Greeting(beat, account), is_holder=is_holder):
                self._context.counters.count("heartbeats_dropped")
        self._context.wakes.wake("registrar")

    def learn_catalogues(self, fingerprints: Iterable[str]) -> None:
        """Read the catalogues that are stored."""
        self._catalogues.learn(fingerprints)

    def take_catalogue(self, answer: CatalogueAnswer) -> None:
        """Keep an executor's catalogue, if it matches its heartbeats; from any thread."""
        boot = Boot(answer.app, answer.address, answer.boot_id)
        contents = bytes(answer.contents)
        try:
            if fingerprint_of(contents) == self._roster.catalogue_of(boot):
                self._catalogues.keep(contents, self._context.now_ms())
                self._catalogues.retain(self._roster.all_catalogues())
                self._context.wakes.wake("dispatcher")
        except Malformed as error:
            self._context.counters.count("messages_rejected")
            log.warning(
                "catalogue_rejected", app=answer.app, address=answer.address, reason=str(error)
            )

    def run_round(self, now_ms: int) -> float:
        """Answer the heartbeats that wait; return the seconds until the next round."""
        self._queues.forget_missing()
        with self._lock:
            greetings = self._waiting.take()
        welcome: list[Heartbeat] = []
        contested: list[tuple[Greeting, str]] = []
        try:
            while greetings:
                greeting = greetings.popleft()
                holder = self._holder(greeting, now_ms)
                if not holder:
                    continue
                if not self._queues.declare(greeting.boot):
                    if holder == greeting.beat.boot_id:
                        self._hold_back(greeting.beat, now_ms)
                    continue
                self._roster.set_reachable(*greeting.boot[:2], is_reachable=True)
                if holder == greeting.beat.boot_id:
                    welcome.append(greeting.beat)
                else:
                    contested.append((greeting, holder))
        finally:
            # The one that failed asks again; the others must not wait for it.
            with self._lock:
                self._waiting.put_back(greetings)
                if self._waiting:
                    self._context.wakes.wake("registrar")
            # A challenge takes time, and welcome executors need not wait for it.
            self._publish([self._welcome(beat) for beat in welcome])
        self._publish(self._contest(contested, now_ms))
        self._queues.tell_undeclared()
        return NAP_SECONDS

    def _hold_back(self, beat: Heartbeat, now_ms: int) -> None:
        """Note that an executor's queues cannot be used, so that its runs wait for it."""
        self._roster.set_reachable(beat.app, beat.address, is_reachable=False)
        if self._roster.holder(beat.app, beat.address) != beat.boot_id:
            # Only the heartbeats of executors that were admitted are recorded elsewhere.
            self._context.database.write(
                lambda session: presence.renew(session, registration(beat, now_ms))
            )

    def _holder(self, greeting: Greeting, now_ms: int) -> str:
        """Return the boot that holds the address; for a known boot, the roster is enough.

        Empty when the executor is not welcome.
        """
        beat = greeting.beat
        if self._is_settled(greeting.boot):
            return beat.boot_id
        holder, reason = self._context.database.write(
            lambda session: _hold(session, beat, now_ms, greeting.account)
        )
        if reason:
            is_noted = self._refusals.note(beat.app, beat.address, reason)
            if is_noted and beat.last_run_id is not None:  # 0.1.0 does not know the answer
                self._queues.declare_commands(greeting.boot)
                self._publish([_reply(beat, NotWelcome(boot_id=beat.boot_id, reason=reason))])
        if holder == beat.boot_id and not self._is_its_own(greeting, now_ms):
            return ""
        return holder

    def _is_its_own(self, greeting: Greeting, now_ms: int) -> bool:
        """Whether a heartbeat came from the account registered for its boot."""
        beat = greeting.beat
        account = self._context.database.write(
            lambda session: presence.claim(session, registration(beat, now_ms, greeting.account))
        )
        if account is None:  # another boot has the address by now
            return False
        self._accounts.settle(greeting.boot, account)
        try:
            self._accounts.prove(greeting.boot, greeting.account)
        except Forged as error:
            self._context.counters.count("messages_rejected")
            queue = topology.heartbeat_queue(self._context.node).name
            log.warning("message_rejected", queue=queue, reason=str(error))
            return False
        return True

    def _is_settled(self, boot: Boot) -> bool:
        """Whether this boot was admitted here before, and its queues should still exist."""
        if self._roster.holder(boot.app, boot.address) != boot.boot_id:
            return False
        return self._queues.are_there(boot) and self._accounts.knows(boot)

    def _welcome(self, beat: Heartbeat) -> AddressedCommand:
        is_new = self._roster.holder(beat.app, beat.address) != beat.boot_id
        wants_catalogue = self._is_catalogue_unknown(beat, is_new=is_new)
        if is_new:
            log.info("executor_joined", app=beat.app, address=beat.address, boot_id=beat.boot_id)
            self._roster.admit(beat)
            self._context.wakes.wake("dispatcher")
        # Executors set their clocks by it, and a round may have waited for database or broker.
        epoch, epoch_proof = self._epochs.current()
        welcome = Welcome(
            boot_id=beat.boot_id,
            now_ms=self._context.now_ms(),
            heartbeat_sent_at_ms=beat.sent_at_ms,
            wants_catalogue=wants_catalogue,
            epoch=epoch,
            epoch_proof=epoch_proof,
            log_store=self._log_store,
        )
        return _reply(beat, welcome)

    def _is_catalogue_unknown(self, beat: Heartbeat, *, is_new: bool) -> bool:
        """Return whether to ask a boot for its catalogue, because no scheduler knows it."""
        try:
            # A newcomer's may be known here, and have been deleted from the database meanwhile.
            unknown = self._catalogues.learn([beat.catalogue], again=is_new)
        except DatabaseUnavailable:
            return False  # its next heartbeat is in time
        return bool(unknown) and self._catalogues.is_to_be_asked(beat.app, beat.catalogue)

    def _publish(self, replies: Sequence[AddressedCommand]) -> None:
        """Send replies to heartbeats; a returned reply means that the queues are missing."""
        if not replies:
            return
        fates = self._commands.send(replies).wait(CONFIRM_SECONDS)
        for reply, fate in zip(replies, fates, strict=True):
            if fate is Confirm.RETURNED:
                self._queues.note_missing(reply.boot.app, reply.boot.address)

    def _contest(
        self, contested: Sequence[tuple[Greeting, str]], now_ms: int
    ) -> list[AddressedCommand]:
        if not contested:
            return []
        started = time.monotonic()
        # After a broker was wiped, or while its node is down, silence for lack of a queue would
        # prove nothing.
        contested = [
            (greeting, holder)
            for greeting, holder in contested
            if self._queues.declare_commands(greeting.boot._replace(boot_id=holder))
        ]
        holders = [greeting.boot._replace(boot_id=holder) for greeting, holder in contested]
        answers = self._requester.ask(
            [AddressedQuestion(boot, _are_you_there) for boot in holders], self._challenge_seconds
        )
        now_ms += int((time.monotonic() - started) * 1000)
        replies = [
            self._settle(registration, holder, now_ms, is_there=answer is not None)
            for (registration, holder), answer in zip(contested, answers, strict=True)
        ]
        return [reply for reply in replies if reply is not None]

    def _settle(
        self, greeting: Greeting, holder: str, now_ms: int, *, is_there: bool
    ) -> AddressedCommand | None:
        if is_there:
            return self._refuse(greeting.beat)
        if self._roster.may_return(*greeting.boot[:2], holder):
            return _keep_waiting(greeting.beat)
        return self._replace(greeting, holder, now_ms)

    def _refuse(self, beat: Heartbeat) -> AddressedCommand:
        log.warning("executor_refused", app=beat.app, address=beat.address, boot_id=beat.boot_id)
        reason = f"address {beat.address} is in use by another running executor"
        return _reply(beat, Refused(boot_id=beat.boot_id, reason=reason))

    def _replace(
        self, greeting: Greeting, old_boot_id: str, now_ms: int
    ) -> AddressedCommand | None:
        """Give the address to the new boot, unless another scheduler has decided meanwhile.

        Returns None if that boot has the address, but with another account.
        """
        beat = greeting.beat
        registered = registration(beat, now_ms, greeting.account)
        self._context.database.write(
            lambda session: presence.supersede(session, registered, old_boot_id=old_boot_id)
        )
        holder = self._context.database.read(
            lambda session: presence.holder(session, presence.EXECUTOR, beat.app, beat.address)
        )
        if holder != beat.boot_id:
            return self._refuse(beat)
        return self._welcome(beat) if self._is_its_own(greeting, now_ms) else None


def _reply(beat: Heartbeat, command: Command) -> AddressedCommand:
    return AddressedCommand(boot=Boot(beat.app, beat.address, beat.boot_id), message=command)


def _keep_waiting(beat: Heartbeat) -> AddressedCommand | None:
    if beat.last_run_id is None:  # 0.1.0 does not know the answer
        return None
    reason = f"the gateway that had {beat.address} may be back in a moment; its next heartbeats ask"
    return _reply(beat, NotWelcome(boot_id=beat.boot_id, reason=reason))


def _are_you_there(question_id: str, reply_to: str) -> Beat:
    return Beat(question_id=question_id, reply_to=reply_to)


def _hold(
    session: Session, beat: Heartbeat, now_ms: int, account: str | None = None
) -> tuple[str, str]:
    """Return the boot that holds the address, or why none can."""
    app = apps.lock(session, beat.app)  # so that schedulers do not count at the same time
    if app is None:
        return "", f"there is no app {beat.app}; create it with: warren apps add {beat.app}"
    holder = presence.holder(session, presence.EXECUTOR, beat.app, beat.address)
    is_known = holder is not None or presence.is_known(session, beat.app, beat.address)
    if not is_known and presence.count_addresses(session, beat.app) >= ADDRESS_LIMIT:
        return "", (
            f"app {beat.app} already has {ADDRESS_LIMIT} addresses; those that are gone are "
            "removed after a minute, or at once by: "
            f"warren executors forget --gone --app {beat.app}"
        )
    return holder or presence.hold(session, registration(beat, now_ms, account)), ""
