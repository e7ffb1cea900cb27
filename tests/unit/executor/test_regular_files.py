"""What a job may have put in a file's place is refused at once, and never waited for."""

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from warren.executor.disk import misplaced, open_regular

WAYS = [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR | os.O_CREAT]


@contextmanager
def fifo(path: Path) -> Iterator[None]:
    os.mkfifo(path)
    yield


@contextmanager
def used_fifo(path: Path) -> Iterator[None]:
    os.mkfifo(path)
    other = os.open(path, os.O_RDWR)
    yield
    os.close(other)


@contextmanager
def unix_socket(path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        yield


@contextmanager
def folder(path: Path) -> Iterator[None]:
    path.mkdir()
    yield


@contextmanager
def link(path: Path) -> Iterator[None]:
    (path.parent / "precious").touch()
    path.symlink_to(path.parent / "precious")
    yield


@pytest.mark.parametrize("flags", WAYS)
@pytest.mark.parametrize("thing", [fifo, used_fifo, unix_socket, folder, link])
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path, thing: Callable[[Path], AbstractContextManager[None]], flags: int
) -> None:
    path = tmp_path / "1.log"
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names are enough

    with thing(path):
        with pytest.raises(OSError, match=r"[Nn]ot a regular file|[Dd]irectory|symbolic links"):
            open_regular(path, flags)

        assert misplaced(str(path)) == "Not a regular file"
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - see above


@pytest.mark.parametrize("flags", WAYS)
def test_a_device_is_refused(flags: int) -> None:
    with pytest.raises(OSError, match="Not a regular file"):
        open_regular(os.devnull, flags)


@pytest.mark.parametrize("flags", WAYS)
def test_a_regular_file_is_opened_as_by_anybody_and_not_inherited(
    tmp_path: Path, flags: int
) -> None:
    path = tmp_path / "1.log"
    path.touch()

    file = open_regular(path, flags)

    try:
        assert os.get_blocking(file)
        assert not os.get_inheritable(file)
        assert fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == flags & os.O_ACCMODE
    finally:
        os.close(file)


def test_nothing_is_not_misplaced_but_a_file_for_a_folder_is(tmp_path: Path) -> None:
    path = tmp_path / "1.log"

    assert misplaced(str(path)) == ""
    path.touch()
    assert misplaced(str(path)) == ""
    assert misplaced(f"{path}/1.log") == "Not a directory"
