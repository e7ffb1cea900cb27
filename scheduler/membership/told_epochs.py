"""Tells executors the epoch of the database, and hears from them which is the newest."""

import hmac
from collections.abc import Iterable
from functools import lru_cache

from warren.broker.messages import Heartbeat
from warren.broker.signing import ClusterKeys
from warren.sql.engine import Database


class ToldEpochs:
    """Epochs on their way to executors and back. For any thread.

    So a scheduler that reaches only an old primary learns that another server has taken its place.
    """

    def __init__(self, database: Database, keys: ClusterKeys, cluster_id: str) -> None:
        self._database = database
        self._proofs = lru_cache(maxsize=8)(
            lambda epoch: keys.epoch_proofs(cluster_id, epoch) if epoch else ("",)
        )

    def current(self) -> tuple[int, str]:
        """Return the epoch of the database, and its proof."""
        epoch = self._database.epoch
        return epoch, self._proofs(epoch)[0]

    def hear(self, beats: Iterable[Heartbeat]) -> None:
        """Leave the database's server if an executor has seen a newer epoch than it has."""
        for beat in beats:
            if beat.epoch > self._database.epoch and self._is_proven(beat):
                self._database.learn_epoch(beat.epoch, f"{beat.app}/{beat.address}")

    def _is_proven(self, beat: Heartbeat) -> bool:
        given = beat.epoch_proof.encode()
        return any(hmac.compare_digest(given, one.encode()) for one in self._proofs(beat.epoch))
