"""Builds the roles of one boot and connects them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from warren.broker.messages.to_scheduler import Finished, Heartbeat, NotStarted
from warren.broker.messages.values import CallEnd, Progress
from warren.broker.transport import Publisher
from warren.executor.boot_context import BootContext
from warren.executor.fork_server.frames import Await, Call
from warren.executor.journal.group_commit import GroupCommit
from warren.executor.journal.records import CallKey
from warren.executor.lanes.active_runs import ActiveRuns
from warren.executor.lanes.readiness import Contact, Readiness
from warren.executor.lanes.reporting import Reporting
from warren.executor.messaging.heartbeat import HeartbeatThread, LoadMeter
from warren.executor.messaging.inbox import Arrival, Inbox
from warren.executor.messaging.outbox import Outbox
from warren.executor.messaging.reports import ProgressReports
from warren.executor.messaging.signed_sender import Sender
from warren.executor.processes.interface import SlotEvents, SlotPool
from warren.executor.requests.command_handler import AwaitedCalls, CommandHandler, QueryResponder
from warren.executor.requests.intake import EarlyKills, Intake
from warren.executor.run_life import Event

#: The most unsettled commands, or messages of up to fifty triggers; the rest stays with the broker,
#: where it provably never started if this host dies.
PREFETCH = 40


class Hooks(Protocol):
    """The events that roles report to the core; `warren.executor.core.core.Core` handles them."""

    def post(self, call: Callable[..., None], *values: Any) -> None:
        """Call something on the core's thread; thread-safe."""

    def run_moved(self, run_id: int, event: Event) -> None:
        """Handle a slot's event about a run."""

    def run_progressed(self, run_id: int, progress: Progress) -> None:
        """Handle a job process's report on the progress of its run."""

    def run_called(self, call: Call, then: Callable[[], None]) -> None:
        """Keep what a run asks for."""

    def run_awaits(self, call: Await) -> CallEnd | None:
        """Return how the run of a call has ended; None = nobody has told yet."""

    def run_finished(
        self, end: Finished | NotStarted, on_recorded: Callable[[], None] | None = None
    ) -> None:
        """Handle the end of a run."""

    def slots_ready(self) -> None:
        """Handle slots that are free again."""

    def journal_changed(self, is_failing: bool) -> None:
        """Handle a journal that cannot be written, or can again."""

    def reports_confirmed(self, run_ids: tuple[int, ...]) -> None:
        """Handle the broker's confirm of these runs' reports."""

    def calls_confirmed(self, calls: tuple[CallKey, ...]) -> None:
        """Handle the broker's confirm of these calls' reports."""

    def heard(self, sent_at: float) -> None:
        """Handle the broker's answer to a heartbeat."""

    def compose_heartbeat(self) -> Heartbeat:
        """Return the current heartbeat; called from the heartbeat thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles of one boot."""

    slots: SlotPool
    handlers: Sequence[str]
    contact: Contact
    commits: GroupCommit
    publisher: Publisher
    sender: Sender
    outbox: Outbox
    readiness: Readiness
    active_runs: ActiveRuns
    intake: Intake
    commands: CommandHandler
    load: LoadMeter
    heartbeats: HeartbeatThread
    progress: ProgressReports
    reporting: Reporting
    awaited: AwaitedCalls


def assemble(context: BootContext, hooks: Hooks) -> Roles:
    """Build the roles of one boot, with open slots; raises if the handlers cannot be loaded.

    It is long because it is a list: each role once, with everything it depends on.
    """
    slots = context.make_slots(
        loop=context.loop,
        events=SlotEvents(
            partial(hooks.run_moved, event=Event.STARTED),
            hooks.run_finished,
            hooks.slots_ready,
            hooks.run_moved,
            hooks.run_progressed,
            hooks.run_called,
            hooks.run_awaits,
        ),
        script_folder=context.script_folder,
        notes_folder=context.notes_folder,
    )
    handlers = slots.open()
    address, clock = context.identity.address, context.clock
    is_back = context.run_states.knows_boot(context.identity.boot_id)
    contact = Contact(clock.monotonic(), is_back=is_back)
    commits = GroupCommit(
        context.loop,
        context.run_states,
        context.log,
        hooks.journal_changed,
        context.limits.commit_pace,
    )
    publisher = context.transport.publisher(f"{address} callbacks")
    sender = Sender(context.identity, context.sealer, publisher)
    outbox = Outbox(
        sender,
        partial(hooks.post, hooks.reports_confirmed),
        context.log,
        on_calls_confirmed=partial(hooks.post, hooks.calls_confirmed),
    )
    readiness = Readiness(contact, commits, outbox, context.disks, clock, slots=slots)
    reporting = Reporting(context, commits, outbox)
    active_runs = ActiveRuns(
        context,
        slots=slots,
        commits=commits,
        contact=contact,
        readiness=readiness,
        reporting=reporting,
    )
    early_kills = EarlyKills(clock.monotonic)
    intake = Intake(
        context,
        slots=slots,
        active_runs=active_runs,
        outbox=outbox,
        early_kills=early_kills,
        readiness=readiness,
        reporting=reporting,
    )
    load = LoadMeter(clock.monotonic)
    answers = QueryResponder(
        context,
        sender=sender,
        active_runs=active_runs,
        intake=intake,
        load=load,
        readiness=readiness,
    )
    awaited = AwaitedCalls(sender, clock.monotonic)
    commands = CommandHandler(
        context,
        active_runs=active_runs,
        intake=intake,
        early_kills=early_kills,
        contact=contact,
        answers=answers,
        awaited=awaited,
    )
    return Roles(
        slots=slots,
        handlers=handlers,
        contact=contact,
        commits=commits,
        publisher=publisher,
        sender=sender,
        outbox=outbox,
        readiness=readiness,
        active_runs=active_runs,
        intake=intake,
        commands=commands,
        load=load,
        heartbeats=_make_heartbeats(context, hooks),
        progress=ProgressReports(sender, clock.monotonic),
        reporting=reporting,
        awaited=awaited,
    )


def make_inbox(
    context: BootContext, hooks: Hooks, queue: str, expect: Any, receive: Callable[..., None]
) -> Inbox:
    """Return an inbox for one queue; `receive` gets each batch on the core's thread."""
    address = context.identity.address
    name = "triggers" if queue.startswith("warren.run.") else "commands"
    consumer = context.transport.consumer(f"{address} {name}", [queue], prefetch=PREFETCH)
    post: Callable[[list[Arrival]], None] = partial(hooks.post, receive)
    return Inbox(
        name,
        consumer,
        context.sealer,
        address=address,
        expect=expect,
        post=post,
        log=context.log,
    )


def _make_heartbeats(context: BootContext, hooks: Hooks) -> HeartbeatThread:
    publisher = context.transport.publisher(f"{context.identity.address} heartbeats")
    return HeartbeatThread(
        Sender(context.identity, context.sealer, publisher),
        hooks.compose_heartbeat,
        partial(hooks.post, hooks.heard),
        context.clock,
        context.log,
        beat_seconds=context.limits.beat_seconds,
    )
