import errno
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.small_disk import fill, small_disk
from warren.executor.errors import JournalFailed
from warren.executor.journal.file import Journal


@contextmanager
def disk_full_beyond(size: int) -> Iterator[None]:
    """No file grows over `size` bytes; longer writes are cut short or fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, previous)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def lines_in(path: Path) -> list[bytes]:
    return Journal(path).read()


def test_committed_lines_are_read_back_in_order(path: Path) -> None:
    journal = Journal(path)

    for line in (b"one", b"two", b"three"):
        journal.append(line)
    journal.commit()

    assert lines_in(path) == [b"one", b"two", b"three"]


def test_nothing_is_written_before_the_commit(path: Path) -> None:
    journal = Journal(path)

    journal.append(b"one")

    assert path.read_bytes() == b""
    assert journal.has_pending


def test_commit_of_nothing_leaves_the_file_alone(path: Path) -> None:
    journal = Journal(path)

    journal.commit()

    assert journal.size == 0


def test_last_line_that_was_torn_is_left_out(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthr")

    assert lines_in(path) == [b"one", b"two"]


def test_journal_that_holds_only_a_torn_line_is_empty(path: Path) -> None:
    path.write_bytes(b"on")

    assert lines_in(path) == []


def test_full_disk_leaves_no_half_of_a_group(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"before")
    journal.commit()
    journal.append(b"x" * 5_000)

    with disk_full_beyond(1_000), pytest.raises(JournalFailed, match="cannot write"):
        journal.commit()

    assert path.read_bytes() == b"before\n"


def test_what_the_full_disk_refused_is_written_by_the_next_commit(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"x" * 5_000)
    with disk_full_beyond(1_000), pytest.raises(JournalFailed):
        journal.commit()

    journal.append(b"after")
    journal.commit()

    assert lines_in(path) == [b"x" * 5_000, b"after"]


def test_group_that_was_written_but_not_synced_is_not_there_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    journal.append(b"one")

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(JournalFailed, match="Input/output error"):
            journal.commit()
    journal.commit()

    assert lines_in(path) == [b"one"]


def test_written_lines_are_in_the_file_once_and_still_wait_for_the_commit(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"one")
    journal.write()
    before = (lines_in(path), journal.size, journal.has_pending)

    journal.commit()

    assert before == ([b"one"], 0, True)
    assert (lines_in(path), journal.size, journal.has_pending) == ([b"one"], 4, False)


def test_full_disk_takes_nothing_back_that_was_written_before(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"written")
    journal.write()
    journal.append(b"x" * 5_000)

    with disk_full_beyond(1_000), pytest.raises(JournalFailed):
        journal.commit()

    assert lines_in(path) == [b"written"]


def test_sync_that_fails_leaves_in_the_file_what_was_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    journal.append(b"written")
    journal.write()

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(JournalFailed):
        journal.commit()

    assert lines_in(path) == [b"written"]
    assert journal.has_pending


def test_rewrite_replaces_lines_and_what_was_pending(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"old")
    journal.commit()
    journal.append(b"pending")

    journal.rewrite([b"new", b"pending"])
    journal.append(b"later")
    journal.commit()

    assert lines_in(path) == [b"new", b"pending", b"later"]
    assert journal.size == path.stat().st_size


def test_rewrite_on_a_full_disk_keeps_the_old_file_and_what_is_pending(path: Path) -> None:
    journal = Journal(path)
    journal.append(b"old")
    journal.commit()
    journal.append(b"pending")

    with disk_full_beyond(1_000), pytest.raises(JournalFailed):
        journal.rewrite([b"x" * 5_000])
    journal.commit()

    assert lines_in(path) == [b"old", b"pending"]
    assert [entry.name for entry in path.parent.iterdir()] == ["journal"]


def test_rewrite_in_a_folder_that_cannot_be_synced_is_durable_with_the_next_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(path)
    journal.append(b"pending")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", refuse)
        with pytest.raises(JournalFailed, match=f"cannot write {path.parent}: Input/output error"):
            journal.rewrite([b"new", b"pending"])
        with pytest.raises(JournalFailed):
            journal.commit()
        waiting = journal.has_pending
    journal.append(b"later")
    journal.commit()

    assert waiting
    assert not journal.has_pending
    assert lines_in(path) == [b"new", b"pending", b"later"]


def test_left_over_of_a_rewrite_that_was_killed_does_no_harm(path: Path) -> None:
    path.with_suffix(".tmp").write_bytes(b"half of a li")
    path.write_bytes(b"old\n")
    journal = Journal(path)

    journal.rewrite([b"new"])

    assert lines_in(path) == [b"new"]


def test_journal_is_readable_by_its_owner_only(path: Path) -> None:
    journal = Journal(path)
    journal.rewrite([b"secret parameters"])

    assert path.stat().st_mode & 0o777 == 0o600


def test_full_disk_does_not_stop_the_journal_while_it_has_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6_000_000) as disk:
        journal = Journal(disk / "journal")
        journal.rewrite([b"first"])
        fill(disk)

        for _ in range(20):
            journal.append(b"x" * 5_000)
            journal.commit()

        assert lines_in(disk / "journal") == [b"first", *[b"x" * 5_000] * 20]
        journal.close()


def test_journal_that_has_used_its_room_up_sets_new_room_aside_once_there_is_some(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 6_000_000) as disk:
        journal = Journal(disk / "journal")
        journal.rewrite([])
        others = fill(disk)
        with pytest.raises(JournalFailed, match="No space left on device"):
            commit_many(journal, 200)
        others.unlink()
        journal.commit()
        fill(disk)

        commit_many(journal, 20)

        journal.close()


def test_room_that_is_set_aside_is_no_part_of_the_file(path: Path) -> None:
    journal = Journal(path)

    journal.rewrite([b"first"])

    assert path.read_bytes() == b"first\n"
    assert path.stat().st_blocks * 512 > 1_000_000


def commit_many(journal: Journal, count: int) -> None:
    for _ in range(count):
        journal.append(b"x" * 5_000)
        journal.commit()


def test_line_after_a_torn_one_is_a_line_of_its_own(path: Path) -> None:
    path.write_bytes(b"one\ntw")
    journal = Journal(path)

    read = journal.read()
    unchanged = path.read_bytes()
    journal.append(b"three")
    journal.commit()

    assert (read, unchanged) == ([b"one"], b"one\ntw")
    assert lines_in(path) == [b"one", b"three"]


def test_torn_line_that_cannot_be_removed_lets_the_write_fail(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"one\ntw")
    journal = Journal(path)
    journal.read()
    journal.append(b"three")

    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(JournalFailed):
            journal.commit()
    journal.commit()

    assert lines_in(path) == [b"one", b"three"]


def refuse(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))
