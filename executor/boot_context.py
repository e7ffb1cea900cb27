"""The context of one boot of an executor: what its roles are built from, and the epoch it knows.

The newest epoch of the database that schedulers have told survives the boot. A trigger of an older
one comes from a scheduler at a database server that another one has replaced. It is dropped, as its
due time is planned on the other one too.
"""

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from warren.broker.messages import Natural, Trigger, Welcome
from warren.broker.signing import Sealer
from warren.broker.transport import Transport
from warren.executor.disk import DiskWatch
from warren.executor.journal.group_commit import CommitPace
from warren.executor.journal.run_states import RunStates
from warren.executor.messaging.heartbeat import BEAT_SECONDS, SchedulerClock
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotsFactory
from warren.executor.run_logs import RunLogs
from warren.executor.state_folder import LifeSigns


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds: an epoch, its proof, and the cluster."""

    cluster: str = ""
    epoch: Natural = 0
    proof: str = ""


class KnownEpoch:
    """Kept in a small file. The core's thread writes it; any thread reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = _Note()
        with suppress(OSError, msgspec.MsgspecError, UnicodeError, RecursionError):
            self._note = msgspec.json.decode(path.read_bytes(), type=_Note)

    @property
    def told(self) -> tuple[int, str]:
        """The epoch and its proof, for heartbeats; 0 = the first."""
        note = self._note
        return note.epoch, note.proof

    def learn(self, welcome: Welcome, cluster: str) -> None:
        """Take the epoch of a welcome if it is newer, or if this is another cluster."""
        if cluster == self._note.cluster and welcome.epoch <= self._note.epoch:
            return
        is_first = not (welcome.epoch or self._note.epoch)
        self._note = _Note(cluster=cluster, epoch=welcome.epoch, proof=welcome.epoch_proof)
        if not is_first:
            with suppress(OSError):  # a full disk is reported anyway; the note lasts for this boot
                self._write()

    def is_outdated(self, trigger: Trigger) -> bool:
        """Whether another database server has replaced the one that a trigger comes from."""
        return trigger.epoch < self._note.epoch

    def _write(self) -> None:
        unfinished = self._path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(self._note))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """An executor's limits: slots, seconds, and the host's load in per cent that makes it busy.

    At most `waiting_runs` wait in all lanes, with `waiting_bytes` of triggers, and `lane_runs` in
    one. Up to `reserved_runs` are marked as starting in the journal before they get a slot.

    At its end it waits `drain_seconds` for running runs, `grace_seconds` and `proof_seconds` until
    the processes of stopped ones are gone, and `report_seconds` until its reports have arrived.

    Up to `log_spool_bytes` of finished logs wait to be stored; at its end it waits `store_seconds`
    for them as long as they get into the store.

    For `bequest_seconds` after the first question about a boot that had its address meanwhile, that
    one may still bequeath what became of its runs.
    """

    slots: int
    grace_seconds: float = 5.0
    drain_seconds: float = 10.0
    cpu_limit: float = 90.0
    memory_limit: float = 90.0
    commit_pace: CommitPace = field(default_factory=CommitPace)
    beat_seconds: float = BEAT_SECONDS
    proof_seconds: float = 5.0
    report_seconds: float = 5.0
    waiting_runs: int = 20_000
    waiting_bytes: int = 64_000_000
    lane_runs: int = 1_000
    reserved_runs: int = 128
    bequest_seconds: float = 0.0
    log_spool_bytes: int = 1_000_000_000
    store_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BootContext:
    """The context of one boot; everything but the transport belongs to the thread of `loop`.

    `log_folder` is the shared folder of a log store, if that is one. `prints_logs`: what runs write
    is printed as lines of JSON.
    """

    identity: Identity
    loop: asyncio.AbstractEventLoop
    transport: Transport
    sealer: Sealer
    run_states: RunStates
    known_epoch: KnownEpoch
    clock: SchedulerClock
    limits: Limits
    make_slots: SlotsFactory
    run_logs: RunLogs
    disks: DiskWatch
    state_folder: Path
    script_folder: Path
    notes_folder: Path
    life_signs: LifeSigns
    log: structlog.typing.FilteringBoundLogger
    log_folder: Path | None = None
    prints_logs: bool = False
