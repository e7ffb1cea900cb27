"""A fake executor for tests of the scheduler."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.cluster import APP, SECRET, Cluster
from tests.support.eventually import eventually
from warren.broker.codec import unpacked
from warren.broker.messages import (
    Beat,
    BeatAnswer,
    Callback,
    Called,
    Finished,
    Goodbye,
    Heartbeat,
    KnownState,
    Load,
    Message,
    NotStarted,
    OpenRunsQuery,
    Outcome,
    Report,
    RunStateQuery,
    RunStateReply,
    Started,
    ToExecutor,
    Trigger,
    Triggers,
)
from warren.broker.signing import AppKeys, Direction, Sealer
from warren.broker.topology import (
    CALLBACK_KEY,
    HEARTBEAT_KEY,
    REPLY_EXCHANGE,
    command_queue,
    run_queue,
)
from warren.broker.transport import Confirm, Delivery, Transport
from warren.sql.registry.cluster import cluster_id

BEAT_SECONDS = 0.2
_numbers = itertools.count(1)


class FakeExecutor:
    """One boot of an executor; sends heartbeats and answers questions.

    It knows the runs that it took and reported on, as a real one does. `knowledge` says otherwise
    for single runs, `is_forgetful` for all; `else_known` is its answer about all other runs.
    """

    def __init__(
        self,
        cluster: Cluster,
        address: str = "one",
        *,
        boot_id: str = "",
        app: str = APP,
        returns_seconds: int = 0,
        triggers_per_message: int = 1,
        transport: Transport | None = None,
    ) -> None:
        self.app, self.address = app, address
        self.boot_id = boot_id or f"boot{next(_numbers)}"
        self.returns_seconds = returns_seconds
        self.triggers_per_message = triggers_per_message
        self.is_beating = True
        self.started_at_ms = 1
        #: None: it is of 0.1.0.
        self.last_run_id: int | None = 0
        self.repeated_id = 0
        self.is_draining = False
        self.answers = True
        self.knowledge: dict[int, KnownState] = {}
        self.is_forgetful = False
        self.else_known = KnownState.UNKNOWN
        self.remembers_since_ms = 0
        self.heard: list[Message] = []
        self._seen: dict[int, KnownState] = {}
        self._cluster = cluster
        self._transport = transport or cluster.make_transport()
        self.publisher = self._transport.publisher(f"desk {address}")
        keys = AppKeys.derived(app, SECRET)
        self.sealer = Sealer(keys, cluster.database.read(cluster_id), cluster.now_ms)
        queue = command_queue(app, address, self.boot_id).name
        self._commands = self._transport.consumer(f"desk {address}", [queue], prefetch=100)
        self._runs = None
        self._admin = self._transport.admin(f"desk {address}")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"desk {address}", daemon=True)
        cluster.desks.append(self)
        eventually(lambda: self.publisher.is_ready)
        self._thread.start()

    # -- saying -------------------------------------------------------------------------------

    def join(self) -> "FakeExecutor":
        """Wait until every scheduler routes to this boot."""
        eventually(self.is_routable)
        return self

    def is_routable(self) -> bool:
        found = [n.roster.routable(self.app).get(self.address) for n in self._cluster.schedulers]
        return found == [self.boot_id] * len(found)

    def beat(self, **values: Any) -> None:
        who = {"app": self.app, "address": self.address, "boot_id": self.boot_id}
        facts = {"load": Load(), "draining": self.is_draining}
        facts["started_at_ms"] = self.started_at_ms
        facts["returns_seconds"] = self.returns_seconds
        facts["last_run_id"] = self.last_run_id
        facts["repeated_id"] = self.repeated_id
        facts["triggers_per_message"] = self.triggers_per_message
        self.say(Heartbeat(**(who | facts | values)), HEARTBEAT_KEY)

    def goodbye(self) -> None:
        self.is_beating = False
        bye = Goodbye(app=self.app, address=self.address, boot_id=self.boot_id)
        self.say(bye, HEARTBEAT_KEY)

    def report(self, *reports: Report, times: int = 1) -> None:
        callback = Callback(
            app=self.app, address=self.address, boot_id=self.boot_id, reports=reports
        )
        for report in reports:
            self._seen[report.run_id] = (
                KnownState.RUNNING if isinstance(report, Started | Called) else KnownState.FINISHED
            )
        for _ in range(times):
            self.say(callback)

    def finished(
        self, run_id: int, outcome: Outcome = Outcome.SUCCEEDED, **values: Any
    ) -> Finished:
        facts = {"boot_id": self.boot_id, "message": "done", "finished_at_ms": 2_000}
        return Finished(run_id=run_id, outcome=outcome, **(facts | values))

    def started(self, run_id: int, **values: Any) -> Started:
        return Started(run_id=run_id, **({"boot_id": self.boot_id, "started_at_ms": 1} | values))

    def called(self, run_id: int, job: str, **values: Any) -> Called:
        return Called(run_id=run_id, job=job, **({"boot_id": self.boot_id, "number": 1} | values))

    def not_started(self, run_id: int, **values: Any) -> NotStarted:
        facts = {"boot_id": self.boot_id, "reason": "not today"}
        return NotStarted(run_id=run_id, **(facts | values))

    def which_open(self, *run_ids: int, identities: tuple[int, ...] = ()) -> None:
        who = {"app": self.app, "address": self.address, "boot_id": self.boot_id}
        self.say(OpenRunsQuery(run_ids=run_ids, identities=identities, **who))

    def say(self, message: Message, key: str = CALLBACK_KEY) -> None:
        sealed = self.sealer.seal(
            message,
            exchange=REPLY_EXCHANGE,
            routing_key=key,
            app=self.app,
            address=self.address,
            direction=Direction.FROM_EXECUTOR,
            valid_seconds=60,
        )
        assert self.publisher.publish([sealed]).wait(30) != [Confirm.UNKNOWN]

    # -- hearing ------------------------------------------------------------------------------

    def take(self, count: int = 1, seconds: float = 30.0) -> list[Trigger]:
        """Take and settle this many triggers; other messages stay in the queue.

        With several triggers per message there may be more.
        """
        queue = run_queue(self.app, self.address).name
        found: list[Trigger] = []
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline:
            taken = self._admin.drain(
                queue, count - len(found), lambda some: found.extend(self._triggers(some))
            )
            if not taken:
                time.sleep(0.01)
        return found

    def hold(self, count: int = 1, seconds: float = 30.0) -> list[Delivery]:
        """Take deliveries without settling them."""
        if self._runs is None:
            queue = run_queue(self.app, self.address).name
            self._runs = self._transport.consumer("runs", [queue], prefetch=1000)
        found: list[Delivery] = []
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline:
            found += self._runs.take(count - len(found), 0.05)
        return found

    def _triggers(self, deliveries: Sequence[Delivery]) -> Iterator[Trigger]:
        for delivery in deliveries:
            for trigger, _size in unpacked(self.read(delivery), 0):
                assert isinstance(trigger, Trigger), trigger
                self._seen.setdefault(trigger.run_id, KnownState.WAITING)
                yield trigger

    def read(self, delivery: Delivery) -> Any:
        return self.sealer.open(
            delivery,
            expect=Trigger | Triggers,
            direction=Direction.TO_EXECUTOR,
            address=self.address,
        )

    def of(self, kind: type[Message]) -> list[Any]:
        return [message for message in list(self.heard) if isinstance(message, kind)]

    def expect(self, kind: type[Message], seconds: float = 30.0) -> Any:
        return eventually(lambda: self.of(kind), seconds)[0]

    # -- ending -------------------------------------------------------------------------------

    def die(self) -> None:
        """End as SIGKILL does: silently; unsettled messages are requeued."""
        self.is_beating = False
        self.close()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._transport.close()

    def _work(self) -> None:
        beaten_at = float("-inf")
        while not self._closing.is_set():
            if self.is_beating and time.monotonic() - beaten_at > BEAT_SECONDS:
                beaten_at = time.monotonic()
                if self.publisher.is_ready:
                    self.beat()
            for delivery in self._commands.take(100, 0.05):
                message = self.sealer.open(
                    delivery,
                    expect=ToExecutor,
                    direction=Direction.TO_EXECUTOR,
                    address=self.address,
                )
                self.heard.append(message)
                self._commands.ack([delivery])
                if self.answers:
                    self.respond(message)

    def respond(self, message: Message) -> None:
        who = {"address": self.address, "boot_id": self.boot_id}
        if isinstance(message, Beat):
            answer: Message = BeatAnswer(question_id=message.question_id, **who)
        elif isinstance(message, RunStateQuery):
            answer = RunStateReply(
                question_id=message.question_id,
                remembers_since_ms=self.remembers_since_ms,
                runs={key.run_id: self._known(key.run_id) for key in message.runs},
                **who,
            )
        else:
            return
        self.say(answer, message.reply_to)

    def _known(self, run_id: int) -> KnownState:
        seen = {} if self.is_forgetful else self._seen
        return self.knowledge.get(run_id, seen.get(run_id, self.else_known))
