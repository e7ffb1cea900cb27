"""What one boot of an executor is given to work with."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import structlog

from broker.signing import Sealer
from broker.transport import Transport
from executor.clock import SchedulerClock
from executor.ledger import Ledger
from executor.runlog import RunLogs
from executor.sender import Identity
from executor.slotpool import SlotsFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an executor may use: slots, seconds, and per cent of the host before it is busy."""

    slots: int
    grace_seconds: float = 5.0
    drain_seconds: float = 10.0
    cpu_limit: float = 90.0
    memory_limit: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Premises:
    """One boot's surroundings; `loop` runs on the thread that all but the transport belongs to."""

    identity: Identity
    loop: asyncio.AbstractEventLoop
    transport: Transport
    sealer: Sealer
    ledger: Ledger
    clock: SchedulerClock
    limits: Limits
    make_slots: SlotsFactory
    run_logs: RunLogs
    script_folder: Path
    log: structlog.typing.FilteringBoundLogger
