"""The states of a run in an executor, and what happens to it.

    taken ──> WAITING ──let go──> STARTING ──durable──> RUNNING ──ended──> GONE
               ^  │                   └──stop──> CALLED_OFF  │ └──stop──> STOPPING
               │  └────────reached by a process──────────^   │
               └──────────────not begun after all────────────┘

Every run goes through these. While it is RUNNING or STOPPING, it has a slot. In a slot of job
processes it goes through others:

    QUEUED ──process──> RUNNING ──answered, process is clean──────────> GONE
                        ^    ├──answered, process ends──> ANSWERED ──exited──^
    ASSIGNED_EARLY ─────┘    └──stop──> STOPPING ──exited────────────────────^

For each of these and each event, `ActiveRuns.LIFE` and `Slots.LIFE` have the next state and what
is done. What is not in a table cannot happen, and a run that has left its slot gets no more events.
"""

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
