"""The life of a run in an executor: for each state and event, the next state and the effects.

    taken ──> WAITING ──let go──> STARTING ──durable──> RUNNING ──ended──> GONE
               ^  │                   └──stop──> CALLED_OFF  │ └──stop──> STOPPING
               │  └────────reached by a process──────────^   │
               └──────────────not begun after all────────────┘

`LIFE` is what every run goes through; `lanes/active_runs.py` keeps its state and does what the
table says. While it is RUNNING or STOPPING there, it has a slot. What it goes through in a slot of
job processes is `SLOT_LIFE`, kept by `processes/slots.py`:

    QUEUED ──process──> RUNNING ──answered, process is clean──────────> GONE
                        ^    ├──answered, process ends──> ANSWERED ──exited──^
    ASSIGNED_EARLY ─────┘    └──stop──> STOPPING ──exited────────────────────^

Pure. What is not in a table cannot happen, and a run that has left its slot gets no more events.
"""

from collections.abc import Mapping
from enum import Enum, auto


class Phase(Enum):
    """The state of a run in the executor."""

    #: In its lane. It may be assigned early to a process.
    WAITING = auto()
    #: On its way into a slot: its start goes into the journal.
    STARTING = auto()
    #: The same, but it will not start.
    CALLED_OFF = auto()
    #: In a slot.
    RUNNING = auto()
    #: The same, and told to stop.
    STOPPING = auto()
    GONE = auto()

    @property
    def has_slot(self) -> bool:
        return self in {Phase.RUNNING, Phase.STOPPING}


class Event(Enum):
    """What happens to a run."""

    #: It is next in its lane, and a slot is free.
    LET_GO = auto()
    #: The same, and it was reserved: its start needs no sync.
    LET_GO_RESERVED = auto()
    #: Its start is in the journal.
    DURABLE = auto()
    #: The same, but no slot is free any more.
    SLOT_GONE = auto()
    #: The slots failed to take it.
    NOT_TAKEN = auto()
    #: Its process is running.
    STARTED = auto()
    #: Assigned early, and its process has come to it.
    REACHED = auto()
    #: So it was believed, but the process had not.
    NOT_BEGUN = auto()
    #: Assigned early, and its process will not come to it.
    HANDED_BACK = auto()
    #: A kill, a newer run that covers it, the end of the executor.
    STOP = auto()
    #: The schedulers have ended it.
    CLOSED = auto()
    #: Its slot has reported its end.
    ENDED = auto()


class Effect(Enum):
    """What `ActiveRuns` does about it."""

    STOP_WAITING = auto()
    RECORD_START = auto()
    START_ONCE_DURABLE = auto()
    START_ONCE_WRITTEN = auto()
    ENTER_SLOT = auto()
    RUN_IN_LANE = auto()
    NOTE_START = auto()
    WAIT_AGAIN = auto()
    QUEUE_AGAIN = auto()
    MARK_STOPPING = auto()
    STOP_IN_SLOT = auto()
    DROP_FROM_LANE = auto()
    LEAVE_UNSTARTED = auto()
    LEAVE_LANE = auto()
    REPORT_STOP = auto()
    REPORT_SLOT_GONE = auto()
    REPORT_FAULT = auto()
    REPORT_END = auto()
    RECORD_CLOSED = auto()


LIFE: Mapping[Phase, Mapping[Event, tuple[Phase, tuple[Effect, ...]]]] = {
    Phase.WAITING: {
        Event.LET_GO: (
            Phase.STARTING,
            (Effect.STOP_WAITING, Effect.RECORD_START, Effect.START_ONCE_DURABLE),
        ),
        Event.LET_GO_RESERVED: (
            Phase.STARTING,
            (Effect.STOP_WAITING, Effect.RECORD_START, Effect.START_ONCE_WRITTEN),
        ),
        Event.REACHED: (
            Phase.RUNNING,
            (Effect.RUN_IN_LANE, Effect.STOP_WAITING, Effect.NOTE_START),
        ),
        Event.HANDED_BACK: (Phase.WAITING, (Effect.QUEUE_AGAIN,)),
        Event.STOP: (Phase.GONE, (Effect.DROP_FROM_LANE, Effect.REPORT_STOP)),
        Event.CLOSED: (Phase.GONE, (Effect.DROP_FROM_LANE, Effect.RECORD_CLOSED)),
    },
    Phase.STARTING: {
        Event.DURABLE: (Phase.RUNNING, (Effect.ENTER_SLOT,)),
        Event.SLOT_GONE: (Phase.GONE, (Effect.LEAVE_UNSTARTED, Effect.REPORT_SLOT_GONE)),
        Event.STOP: (Phase.CALLED_OFF, (Effect.MARK_STOPPING,)),
    },
    Phase.CALLED_OFF: {
        Event.DURABLE: (Phase.GONE, (Effect.LEAVE_UNSTARTED, Effect.REPORT_STOP)),
        Event.SLOT_GONE: (Phase.GONE, (Effect.LEAVE_UNSTARTED, Effect.REPORT_STOP)),
        Event.STOP: (Phase.CALLED_OFF, ()),
    },
    Phase.RUNNING: {
        Event.NOT_TAKEN: (Phase.GONE, (Effect.LEAVE_UNSTARTED, Effect.REPORT_FAULT)),
        Event.STARTED: (Phase.RUNNING, (Effect.NOTE_START,)),
        Event.NOT_BEGUN: (Phase.WAITING, (Effect.WAIT_AGAIN,)),
        Event.STOP: (Phase.STOPPING, (Effect.MARK_STOPPING, Effect.STOP_IN_SLOT)),
        Event.ENDED: (Phase.GONE, (Effect.LEAVE_LANE, Effect.REPORT_END)),
    },
    Phase.STOPPING: {
        Event.STARTED: (Phase.STOPPING, (Effect.NOTE_START,)),
        Event.NOT_BEGUN: (Phase.GONE, (Effect.LEAVE_UNSTARTED, Effect.REPORT_STOP)),
        Event.STOP: (Phase.STOPPING, (Effect.STOP_IN_SLOT,)),
        Event.ENDED: (Phase.GONE, (Effect.LEAVE_LANE, Effect.REPORT_END)),
    },
    Phase.GONE: {},
}


class SlotPhase(Enum):
    """The state of a run in a slot."""

    #: It waits for a process to exit, so that there is room for its own.
    QUEUED = auto()
    #: Assigned to a process behind other runs. It has no slot yet, and waits in its lane.
    ASSIGNED_EARLY = auto()
    #: Its process has it, as far as is known.
    RUNNING = auto()
    #: It has answered, and its process has to exit first.
    ANSWERED = auto()
    #: Told to stop; its process has to exit.
    STOPPING = auto()
    #: It gets no process, and ends in the next round of the loop.
    ENDING = auto()
    GONE = auto()


class SlotEvent(Enum):
    """What happens to a run in a slot."""

    #: A new process was asked for.
    GIVEN_NEW = auto()
    #: An idle process has got it.
    GIVEN_IDLE = auto()
    #: That process has got it too, to go on with.
    ASSIGNED_EARLY = auto()
    #: There is no room for a process.
    CROWDED = auto()
    #: It gets none.
    UNPLACED = auto()
    #: The new process exists.
    FORKED = auto()
    #: Its process has answered the run before it.
    REACHED = auto()
    #: Its process has not begun it and will not.
    NOT_BEGUN = auto()
    #: It has answered, and its process is clean and idle.
    ANSWERED = auto()
    #: It has answered, and its process has gone on with the next run.
    WENT_ON = auto()
    #: It has answered, and its process exits.
    ANSWERED_LAST = auto()
    #: It has answered although its process was told to exit.
    ANSWERED_LATE = auto()
    #: A kill, a timeout, the end of the executor, misuse of the channel.
    STOP = auto()
    #: Its process has exited.
    EXITED = auto()
    #: The same, before it had begun the run.
    EXITED_IDLE = auto()
    #: Its process could not be forked for lack of room.
    NO_ROOM = auto()
    #: It ends without a process.
    OVER = auto()


class SlotEffect(Enum):
    """What `SlotRuns` does about it."""

    START_TIMER = auto()
    REPORT_STARTED = auto()
    REPORT_STARTED_SOON = auto()
    TAKE_SLOT = auto()
    FORGET = auto()
    GIVE_BACK = auto()
    REST_PROCESS = auto()
    REACH_NEXT = auto()
    REPORT_REACHED = auto()
    WAIT_FOR_EXIT = auto()
    ASK_TO_EXIT = auto()
    END_PROCESS = auto()
    LEAVE_QUEUE = auto()
    WAIT_FOR_ROOM = auto()
    PLACE_AGAIN = auto()
    END_SOON = auto()
    REPORT_END = auto()


_CONTINUE = (SlotEffect.REACH_NEXT, SlotEffect.REPORT_END, SlotEffect.REPORT_REACHED)

SLOT_LIFE: Mapping[SlotPhase, Mapping[SlotEvent, tuple[SlotPhase, tuple[SlotEffect, ...]]]] = {
    SlotPhase.QUEUED: {
        SlotEvent.GIVEN_NEW: (SlotPhase.RUNNING, (SlotEffect.START_TIMER,)),
        SlotEvent.GIVEN_IDLE: (
            SlotPhase.RUNNING,
            (SlotEffect.START_TIMER, SlotEffect.REPORT_STARTED_SOON),
        ),
        SlotEvent.ASSIGNED_EARLY: (SlotPhase.ASSIGNED_EARLY, ()),
        SlotEvent.CROWDED: (SlotPhase.QUEUED, ()),
        SlotEvent.UNPLACED: (SlotPhase.ENDING, (SlotEffect.END_SOON,)),
        SlotEvent.STOP: (SlotPhase.ENDING, (SlotEffect.LEAVE_QUEUE, SlotEffect.END_SOON)),
        SlotEvent.EXITED: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
    },
    SlotPhase.ASSIGNED_EARLY: {
        SlotEvent.REACHED: (SlotPhase.RUNNING, (SlotEffect.TAKE_SLOT, SlotEffect.START_TIMER)),
        SlotEvent.NOT_BEGUN: (SlotPhase.GONE, (SlotEffect.FORGET,)),
    },
    SlotPhase.RUNNING: {
        SlotEvent.FORKED: (SlotPhase.RUNNING, (SlotEffect.REPORT_STARTED,)),
        SlotEvent.NOT_BEGUN: (SlotPhase.GONE, (SlotEffect.GIVE_BACK,)),
        SlotEvent.ANSWERED: (SlotPhase.GONE, (SlotEffect.REST_PROCESS, SlotEffect.REPORT_END)),
        SlotEvent.WENT_ON: (SlotPhase.GONE, _CONTINUE),
        SlotEvent.ANSWERED_LAST: (SlotPhase.ANSWERED, (SlotEffect.WAIT_FOR_EXIT,)),
        SlotEvent.ANSWERED_LATE: (SlotPhase.ANSWERED, (SlotEffect.ASK_TO_EXIT,)),
        SlotEvent.STOP: (SlotPhase.STOPPING, (SlotEffect.END_PROCESS,)),
        SlotEvent.EXITED: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
        SlotEvent.EXITED_IDLE: (SlotPhase.QUEUED, (SlotEffect.PLACE_AGAIN,)),
        SlotEvent.NO_ROOM: (SlotPhase.QUEUED, (SlotEffect.WAIT_FOR_ROOM,)),
    },
    SlotPhase.ANSWERED: {
        SlotEvent.FORKED: (SlotPhase.ANSWERED, ()),
        SlotEvent.NOT_BEGUN: (SlotPhase.ANSWERED, ()),
        SlotEvent.WENT_ON: (SlotPhase.GONE, _CONTINUE),
        SlotEvent.ANSWERED_LAST: (SlotPhase.ANSWERED, (SlotEffect.WAIT_FOR_EXIT,)),
        SlotEvent.ANSWERED_LATE: (SlotPhase.ANSWERED, (SlotEffect.ASK_TO_EXIT,)),
        SlotEvent.STOP: (SlotPhase.STOPPING, (SlotEffect.END_PROCESS,)),
        SlotEvent.EXITED: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
        SlotEvent.EXITED_IDLE: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
        SlotEvent.NO_ROOM: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
    },
    SlotPhase.STOPPING: {
        SlotEvent.FORKED: (SlotPhase.STOPPING, (SlotEffect.REPORT_STARTED,)),
        SlotEvent.NOT_BEGUN: (SlotPhase.STOPPING, ()),
        SlotEvent.WENT_ON: (SlotPhase.GONE, _CONTINUE),
        SlotEvent.ANSWERED_LAST: (SlotPhase.STOPPING, (SlotEffect.WAIT_FOR_EXIT,)),
        SlotEvent.ANSWERED_LATE: (SlotPhase.STOPPING, (SlotEffect.ASK_TO_EXIT,)),
        SlotEvent.STOP: (SlotPhase.STOPPING, ()),
        SlotEvent.EXITED: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
        SlotEvent.EXITED_IDLE: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
        SlotEvent.NO_ROOM: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
    },
    SlotPhase.ENDING: {
        SlotEvent.STOP: (SlotPhase.ENDING, ()),
        SlotEvent.OVER: (SlotPhase.GONE, (SlotEffect.REPORT_END,)),
    },
    SlotPhase.GONE: dict.fromkeys(SlotEvent, (SlotPhase.GONE, ())),
}
