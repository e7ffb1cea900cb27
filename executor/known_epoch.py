"""The newest epoch of the database that schedulers have told an executor; survives its end.

A trigger of an older epoch comes from a scheduler at a database server that another one has
replaced. It is dropped, as its due time is planned on the other one too.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from warren.broker.messages import Trigger, Welcome


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds: an epoch, its proof, and the cluster."""

    cluster: str = ""
    epoch: int = 0
    proof: str = ""


class KnownEpoch:
    """Kept in a small file. The core's thread writes it; any thread reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._note = _Note()
        with suppress(OSError, msgspec.MsgspecError):
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
