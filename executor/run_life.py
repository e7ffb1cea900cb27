"""The life of a run in an executor: for each state and event, the next state and what is done.

    taken ──> WAITING ──let go──> STARTING ──durable──> RUNNING ──ended──> GONE
               ^  │                   └──stop──> CALLED_OFF  │ └──stop──> STOPPING
               │  └────────reached by a process──────────^   │
               └──────────────not begun after all────────────┘

`lanes/active_runs.py` keeps the state of each run and does what the table says.

Pure. What is not in the table cannot happen.
"""

from collections.abc import Mapping
from enum import Enum, auto


class Phase(Enum):
    """How far a run has come in the executor."""

    #: In its lane. A process may have been handed it ahead.
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
        """Whether a slot has it."""
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
    #: A process that was handed it ahead has come to it.
    REACHED = auto()
    #: So it was believed, but the process had not.
    NOT_BEGUN = auto()
    #: A kill, a newer run that covers it, the end of the executor.
    STOP = auto()
    #: The schedulers have ended it.
    CLOSED = auto()
    #: Its slot has reported its end.
    ENDED = auto()


class Do(Enum):
    """What `ActiveRuns` does about it, in the method of this name."""

    STOP_WAITING = auto()
    RECORD_START = auto()
    START_ONCE_DURABLE = auto()
    START_ONCE_WRITTEN = auto()
    ENTER_SLOT = auto()
    RUN_IN_LANE = auto()
    NOTE_START = auto()
    WAIT_AGAIN = auto()
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


LIFE: Mapping[Phase, Mapping[Event, tuple[Phase, tuple[Do, ...]]]] = {
    Phase.WAITING: {
        Event.LET_GO: (
            Phase.STARTING,
            (Do.STOP_WAITING, Do.RECORD_START, Do.START_ONCE_DURABLE),
        ),
        Event.LET_GO_RESERVED: (
            Phase.STARTING,
            (Do.STOP_WAITING, Do.RECORD_START, Do.START_ONCE_WRITTEN),
        ),
        Event.REACHED: (Phase.RUNNING, (Do.RUN_IN_LANE, Do.STOP_WAITING, Do.NOTE_START)),
        Event.STOP: (Phase.GONE, (Do.DROP_FROM_LANE, Do.REPORT_STOP)),
        Event.CLOSED: (Phase.GONE, (Do.DROP_FROM_LANE, Do.RECORD_CLOSED)),
    },
    Phase.STARTING: {
        Event.DURABLE: (Phase.RUNNING, (Do.ENTER_SLOT,)),
        Event.SLOT_GONE: (Phase.GONE, (Do.LEAVE_UNSTARTED, Do.REPORT_SLOT_GONE)),
        Event.STOP: (Phase.CALLED_OFF, (Do.MARK_STOPPING,)),
    },
    Phase.CALLED_OFF: {
        Event.DURABLE: (Phase.GONE, (Do.LEAVE_UNSTARTED, Do.REPORT_STOP)),
        Event.SLOT_GONE: (Phase.GONE, (Do.LEAVE_UNSTARTED, Do.REPORT_STOP)),
        Event.STOP: (Phase.CALLED_OFF, ()),
    },
    Phase.RUNNING: {
        Event.NOT_TAKEN: (Phase.GONE, (Do.LEAVE_UNSTARTED, Do.REPORT_FAULT)),
        Event.STARTED: (Phase.RUNNING, (Do.NOTE_START,)),
        Event.NOT_BEGUN: (Phase.WAITING, (Do.WAIT_AGAIN,)),
        Event.STOP: (Phase.STOPPING, (Do.MARK_STOPPING, Do.STOP_IN_SLOT)),
        Event.ENDED: (Phase.GONE, (Do.LEAVE_LANE, Do.REPORT_END)),
    },
    Phase.STOPPING: {
        Event.STARTED: (Phase.STOPPING, (Do.NOTE_START,)),
        Event.NOT_BEGUN: (Phase.GONE, (Do.LEAVE_UNSTARTED, Do.REPORT_STOP)),
        Event.STOP: (Phase.STOPPING, (Do.STOP_IN_SLOT,)),
        Event.ENDED: (Phase.GONE, (Do.LEAVE_LANE, Do.REPORT_END)),
    },
    Phase.GONE: {},
}
