"""Executors repeat the epoch that a scheduler told them; they can make up none."""

from typing import cast

import pytest

from warren.broker.messages import Heartbeat, Load
from warren.broker.signing import ClusterKeys
from warren.scheduler.membership.registrar import ToldEpochs
from warren.sql.engine import Database

SECRET, OTHER = "a" * 32, "b" * 32


class Known:
    """A database of an epoch; notes what it was told."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.told: list[tuple[int, str]] = []

    def learn_epoch(self, epoch: int, told_by: str) -> None:
        self.told.append((epoch, told_by))


def epochs(database: Known, keys: ClusterKeys, cluster: str = "c") -> ToldEpochs:
    return ToldEpochs(cast("Database", database), keys, cluster)


def beat(epoch: int, proof: str) -> Heartbeat:
    return Heartbeat(
        app="demo",
        address="one",
        boot_id="b",
        started_at_ms=1,
        load=Load(),
        epoch=epoch,
        epoch_proof=proof,
    )


def test_an_old_primary_learns_the_epoch_of_the_new_one_from_an_executor() -> None:
    epoch, proof = epochs(Known(7), ClusterKeys(SECRET)).current()
    old = Known(0)

    epochs(old, ClusterKeys(OTHER, SECRET)).hear([beat(epoch, proof), beat(0, "")])

    assert old.told == [(7, "demo/one")]


@pytest.mark.parametrize("cluster", ["c", "another"])
def test_an_epoch_without_its_proof_is_not_believed(cluster: str) -> None:
    _, proof = epochs(Known(7), ClusterKeys(SECRET), "another").current()
    old = Known(0)

    epochs(old, ClusterKeys(SECRET)).hear([beat(7, proof), beat(8, ""), beat(9, "é")])

    assert old.told == []
