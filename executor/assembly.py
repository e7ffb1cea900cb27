"""One boot's roles, each given what it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from broker.messages import Finished, Heartbeat
from broker.transport import Publisher
from executor.commands import Commands
from executor.contact import Contact
from executor.groupcommit import GroupCommit
from executor.heartbeat import Pulse
from executor.inbox import Arrival, Inbox
from executor.intake import Intake, Tombstones
from executor.load import LoadMeter
from executor.outbox import Outbox
from executor.premises import Premises
from executor.questions import Questions
from executor.readiness import Readiness
from executor.sender import Sender
from executor.slotpool import SlotPool
from executor.workload import Workload

#: Triggers or commands held unsettled; what is over it stays with the broker.
PREFETCH = 200


class Hooks(Protocol):
    """What the roles tell the core; `executor.core.Core` listens."""

    def post(self, call: Callable[..., None], *values: Any) -> None:
        """Have something done on the core's thread; thread-safe."""

    def run_started(self, run_id: int, started_at_ms: int) -> None:
        """Note that a run's process is at work."""

    def run_finished(self, finished: Finished) -> None:
        """Note that a run is over."""

    def slots_ready(self) -> None:
        """Note that slots are free again."""

    def journal_changed(self, is_in_trouble: bool) -> None:
        """Note that the journal cannot be written, or can again."""

    def reports_confirmed(self, run_ids: tuple[int, ...]) -> None:
        """Note that the broker has the reports of these runs."""

    def heard(self, sent_at: float) -> None:
        """Note that the broker took a heartbeat."""

    def compose_heartbeat(self) -> Heartbeat:
        """Return the heartbeat of now; called in the heartbeat's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The roles of one boot."""

    slots: SlotPool
    handlers: Sequence[str]
    contact: Contact
    commits: GroupCommit
    publisher: Publisher
    sender: Sender
    outbox: Outbox
    readiness: Readiness
    workload: Workload
    intake: Intake
    commands: Commands
    load: LoadMeter
    pulse: Pulse


def assemble(premises: Premises, hooks: Hooks) -> Parts:
    """Make the roles of one boot, its slots open; raises what is wrong with the handlers.

    It is long because it is a list: each role once, with all that it stands on.
    """
    slots = premises.make_slots(
        loop=premises.loop,
        on_started=hooks.run_started,
        on_finished=hooks.run_finished,
        on_ready=hooks.slots_ready,
        script_folder=premises.script_folder,
    )
    handlers = slots.open()
    address, clock = premises.identity.address, premises.clock
    contact = Contact(clock.monotonic())
    commits = GroupCommit(premises.loop, premises.ledger, premises.log, hooks.journal_changed)
    publisher = premises.transport.publisher(f"{address} callbacks")
    sender = Sender(premises.identity, premises.sealer, publisher)
    outbox = Outbox(sender, partial(hooks.post, hooks.reports_confirmed), premises.log)
    readiness = Readiness(contact, commits, outbox, clock)
    workload = Workload(
        slots=slots,
        ledger=premises.ledger,
        commits=commits,
        outbox=outbox,
        contact=contact,
        readiness=readiness,
        clock=clock,
        log=premises.log,
    )
    tombstones = Tombstones(clock.monotonic)
    intake = Intake(
        identity=premises.identity,
        handlers=handlers,
        ledger=premises.ledger,
        workload=workload,
        outbox=outbox,
        tombstones=tombstones,
        readiness=readiness,
        log=premises.log,
    )
    load = LoadMeter(clock.monotonic)
    questions = Questions(
        sender=sender,
        ledger=premises.ledger,
        workload=workload,
        intake=intake,
        load=load,
        readiness=readiness,
        limits=premises.limits,
        log=premises.log,
    )
    commands = Commands(
        identity=premises.identity,
        loop=premises.loop,
        workload=workload,
        intake=intake,
        tombstones=tombstones,
        contact=contact,
        questions=questions,
        run_logs=premises.run_logs,
        log=premises.log,
    )
    return Parts(
        slots=slots,
        handlers=handlers,
        contact=contact,
        commits=commits,
        publisher=publisher,
        sender=sender,
        outbox=outbox,
        readiness=readiness,
        workload=workload,
        intake=intake,
        commands=commands,
        load=load,
        pulse=_make_pulse(premises, hooks),
    )


def make_inbox(
    premises: Premises, hooks: Hooks, queue: str, expect: Any, receive: Callable[..., None]
) -> Inbox:
    """Return an inbox over one queue; `receive` is called with each batch on the core's thread."""
    address = premises.identity.address
    name = "triggers" if queue.startswith("warren.run.") else "commands"
    consumer = premises.transport.consumer(f"{address} {name}", [queue], prefetch=PREFETCH)
    post: Callable[[list[Arrival]], None] = partial(hooks.post, receive)
    return Inbox(
        name,
        consumer,
        premises.sealer,
        address=address,
        expect=expect,
        post=post,
        log=premises.log,
    )


def _make_pulse(premises: Premises, hooks: Hooks) -> Pulse:
    publisher = premises.transport.publisher(f"{premises.identity.address} heartbeats")
    return Pulse(
        Sender(premises.identity, premises.sealer, publisher),
        hooks.compose_heartbeat,
        partial(hooks.post, hooks.heard),
        premises.clock.monotonic,
        premises.log,
    )
