"""Which faults happen when: a pure function of a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens."""

    KILL_SCHEDULER = "a scheduler is killed"
    STOP_SCHEDULER = "a scheduler stands still"
    END_SCHEDULER = "a scheduler is restarted"
    KILL_EXECUTOR = "an executor is killed"
    STOP_EXECUTOR = "an executor stands still"
    END_EXECUTOR = "an executor is restarted"
    KILL_ZYGOTE = "a zygote is killed"
    STOP_ZYGOTE = "a zygote stands still"
    KILL_BOTH = "an executor and its zygote are killed together"
    CUT_BROKER = "nothing passes between Warren and RabbitMQ"
    SLOW_BROKER = "all that passes between Warren and RabbitMQ is late"
    RESET_BROKER = "every connection to RabbitMQ is reset"
    ALARM_BROKER = "RabbitMQ has no memory left and blocks publishers"
    KILL_BROKER = "RabbitMQ is killed and started again"
    DELETE_EXCHANGE = "an exchange is deleted"
    CUT_DATABASE = "nothing passes between Warren and the database"
    SLOW_DATABASE = "all that passes between Warren and the database is late"
    RESET_DATABASE = "every connection to the database is reset"
    KILL_SESSIONS = "every session of the database is killed"
    LOCK_RUNS = "another program locks the latest runs"
    LOCK_JOBS = "another program locks every job"
    KILL_DATABASE = "the database is killed and started again"
    KILL_BROKER_NODE = "a node of RabbitMQ is killed, and returns"
    STOP_BROKER_NODE = "a node of RabbitMQ stands still"
    PART_BROKER_NODE = "a node of RabbitMQ is cut off from all others"
    PART_TWO_BROKER_NODES = "two nodes of RabbitMQ are cut off from each other"
    KILL_DATABASE_NODE = "a server of the database is killed, and returns"
    STOP_DATABASE_NODE = "a server of the database stands still"
    FAIL_OVER = "the primary is killed, its replica takes its place, and it returns as the replica"
    KILL_GATEWAY = "a gateway is killed, and returns"
    STOP_GATEWAY = "a gateway stands still"


#: What happens to a node of several; the next such fault waits until all are back.
OF_NODES = {
    Kind.KILL_BROKER_NODE,
    Kind.STOP_BROKER_NODE,
    Kind.PART_BROKER_NODE,
    Kind.PART_TWO_BROKER_NODES,
    Kind.KILL_DATABASE_NODE,
    Kind.STOP_DATABASE_NODE,
    Kind.FAIL_OVER,
    Kind.KILL_GATEWAY,
    Kind.STOP_GATEWAY,
}

#: How long a fault lasts, in seconds: longer than an executor needs to be given up, at most.
SECONDS = (0.5, 18.0)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `target` chooses among processes, modulo their number."""

    at_seconds: float
    kind: Kind
    target: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.at_seconds:6.1f} s: {self.kind} ({self.target}, {self.seconds:.1f} s)"


def plan(seed: int, seconds: float, every_seconds: float, kinds: Sequence[Kind]) -> list[Fault]:
    """Return the faults of a soak; none of `kinds` repeats before all have occurred.

    None begins in the first or the last `every_seconds`.
    """
    dice = random.Random(seed)
    faults: list[Fault] = []
    left: list[Kind] = []
    while (at := (len(faults) + 1) * every_seconds) <= seconds - every_seconds:
        if not left:
            left = dice.sample(list(kinds), len(kinds))
        early = dice.uniform(0, every_seconds / 2)
        faults.append(Fault(at - early, left.pop(), dice.randrange(6), dice.uniform(*SECONDS)))
    return faults
