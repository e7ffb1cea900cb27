"""The newest epoch that an executor was told, which outlives it."""

from pathlib import Path

import pytest

from warren.broker.messages import Trigger, Welcome
from warren.executor.boot_context import KnownEpoch


def welcome(epoch: int, proof: str = "") -> Welcome:
    return Welcome(boot_id="b", now_ms=1, epoch=epoch, epoch_proof=proof)


def trigger(epoch: int) -> Trigger:
    return Trigger(
        run_id=1, job_id=1, boot_id="b", kind="CRON", handler="h", scheduled_at_ms=1, epoch=epoch
    )


def test_the_newest_epoch_is_kept_across_boots(tmp_path: Path) -> None:
    known = KnownEpoch(tmp_path / "epoch")
    known.learn(welcome(7, "seven"), "c")
    known.learn(welcome(5, "five"), "c")

    again = KnownEpoch(tmp_path / "epoch")

    assert known.told == again.told == (7, "seven")
    assert [again.is_outdated(trigger(epoch)) for epoch in (0, 6, 7, 8)] == [
        True,
        True,
        False,
        False,
    ]


def test_another_cluster_begins_again(tmp_path: Path) -> None:
    KnownEpoch(tmp_path / "epoch").learn(welcome(7, "seven"), "c")
    moved = KnownEpoch(tmp_path / "epoch")

    moved.learn(welcome(0), "another")

    assert moved.told == KnownEpoch(tmp_path / "epoch").told == (0, "")
    assert not moved.is_outdated(trigger(0))


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"",
        b'{"cluster":"\xff","epoch":7}',
        b'{"a":' * 100_000,
        b'{"cluster":"c","epoch":-1}',
        b'{"cluster":"c","epoch":1e30}',
    ],
    ids=["cut", "empty", "no UTF-8", "nested", "negative", "too large"],
)
def test_a_damaged_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "epoch").write_bytes(content)

    known = KnownEpoch(tmp_path / "epoch")
    known.learn(welcome(7), "c")

    assert KnownEpoch(tmp_path / "epoch").told == (7, "")


def test_before_any_promotion_nothing_is_written(tmp_path: Path) -> None:
    KnownEpoch(tmp_path / "epoch").learn(welcome(0), "c")

    assert not list(tmp_path.iterdir())
