"""The settings of the bare pipeline's programs: services and batch sizes."""

from dataclasses import dataclass
from multiprocessing.synchronize import Event, Semaphore
from typing import Any

import pika

SLOTS = 8
#: Rows per statement.
BATCH = 500
#: Unconfirmed or unacknowledged runs at most.
WINDOW = 1_000
DURABLE = pika.BasicProperties(delivery_mode=2)
TRIGGERS, ANSWERS = "bare.run", "bare.back"


@dataclass(frozen=True, slots=True)
class Messages:
    """How many runs one message carries, in each direction."""

    triggers: int
    answers: int


#: One run per message, and as many as Warren packs into its messages.
SINGLE, PACKED = Messages(1, 1), Messages(50, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What each program needs: the services, the number of runs, and the clock's signals."""

    database_url: str
    broker_url: str
    runs: int
    messages: Messages
    release: Event
    ready: Semaphore
    done: Any
