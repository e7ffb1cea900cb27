"""The journal: lines in an append-only file that survives a kill at any instruction.

A line is one JSON object with its type in `t`. The file knows nothing of what is in its lines, nor
of the state that they describe (`run_states`).
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from warren.broker.messages import Called, Finished, NotStarted, Trigger
from warren.executor.disk import Reserve, space_of
from warren.executor.errors import JournalFailed
from warren.executor.fork_server import linux

#: The last report about a run.
Final = Finished | NotStarted
#: A call: the run that calls, and the number of the call.
CallKey = tuple[int, int]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t"):
    """Root of the journal's lines."""


#: The format of the journal; that of 0.1.0 is 1. It rises when an older executor would lose or
#: repeat runs by what it does not understand.
FORMAT = 1


class Boot(Record, frozen=True, kw_only=True, tag="BOOT"):
    """A boot began to take runs; the following lines up to the next BOOT belong to it.

    `host_boot` identifies the boot of the host; `format` is that of the lines that follow.
    """

    boot_id: str
    at_ms: int
    host_boot: str = ""
    format: int = 1


class Accepted(Record, frozen=True, kw_only=True, tag="ACCEPTED"):
    """A run was accepted from the broker; 0.1.0 wrote no `identity`."""

    run_id: int
    identity: int = 0


class Reserved(Record, frozen=True, kw_only=True, tag="RESERVED"):
    """Once this is durable, these runs may start with a STARTING that is written but not synced."""

    run_ids: tuple[int, ...]


class HandedOver(Record, frozen=True, kw_only=True, tag="HANDED"):
    """These runs may be given to one job process at once, which begins them in this order."""

    run_ids: tuple[int, ...]


class Starting(Record, frozen=True, kw_only=True, tag="STARTING"):
    """From here on the run's process may exist; with a `trigger` it is remote, and may outlive us.

    `at_ms` is the scheduler's time. `host_at_ms` is the host's, which the next process can compare
    with its own clock before a scheduler answers.
    """

    run_id: int
    at_ms: int
    trigger: Trigger | None = None
    host_at_ms: int = 0


class Ended(Record, frozen=True, kw_only=True, tag="FINISHED"):
    """A run ended, or will certainly never start."""

    report: Final


class Calling(Record, frozen=True, kw_only=True, tag="CALLED"):
    """A run asks for another one."""

    report: Called


class CallsConfirmed(Record, frozen=True, kw_only=True, tag="CALLS_CONFIRMED"):
    """The broker has the reports of these calls."""

    calls: tuple[CallKey, ...]


class Confirmed(Record, frozen=True, kw_only=True, tag="CONFIRMED"):
    """The broker has these runs' reports."""

    run_ids: tuple[int, ...]
    at_ms: int


class FinishedIdBlock(Record, frozen=True, kw_only=True, tag="REMEMBERED"):
    """Of the ids from `block` * BLOCK_SIZE on, those with a bit in `bits` (hex) are finished."""

    block: int
    bits: str
    at_ms: int


class Horizon(Record, frozen=True, kw_only=True, tag="HORIZON"):
    """Finished runs from before this time may be missing."""

    since_ms: int


AnyRecord = (
    Boot
    | Accepted
    | Reserved
    | HandedOver
    | Starting
    | Ended
    | Calling
    | CallsConfirmed
    | Confirmed
    | FinishedIdBlock
    | Horizon
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyRecord)


def to_line(record: AnyRecord) -> bytes:
    """Encode a record as a line without its newline.

    Raises:
        UnicodeEncodeError: a text contains a lone surrogate.

    """
    return _encoder.encode(record)


def from_line(line: bytes) -> AnyRecord | None:
    """Decode a line; return None if it is damaged."""
    try:
        record: AnyRecord = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return record


def line_of(report: Final) -> bytes:
    """Encode a report as a FINISHED line; raises as `to_line` does."""
    return _encoder.encode(Ended(report=report))


def line_of_call(report: Called) -> bytes:
    """Encode a call as a CALLED line; in its param, `?` replaces what is not Unicode."""
    try:
        return _encoder.encode(Calling(report=report))
    except UnicodeEncodeError:
        texts = {"job": report.job, "param": report.param or ""}
        fit = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}
        return _encoder.encode(Calling(report=msgspec.structs.replace(report, **fit)))


def call_of(line: bytes) -> Called:
    """Return the report of a CALLED line."""
    record = _decoder.decode(line)
    if not isinstance(record, Calling):
        raise TypeError(f"expected a CALLED line, got: {record!r}")
    return record.report


def report_of(line: bytes) -> Final:
    """Return the report of a FINISHED line."""
    record = _decoder.decode(line)
    if not isinstance(record, Ended):
        raise TypeError(f"expected a FINISHED line, got: {record!r}")
    return record.report


def without_surrogates(report: Final) -> Final:
    """Return the report with `?` for everything that is not Unicode, such as in a file's name."""
    texts = {"reason"} if isinstance(report, NotStarted) else {"message", "log_tail", "result"}
    cleaned = {
        name: getattr(report, name).encode("utf-8", "replace").decode() for name in sorted(texts)
    }
    return msgspec.structs.replace(report, **cleaned)


#: Space allocated ahead, so that the journal can be written even when the disk is full. When half
#: of it is used, more is allocated.
PREALLOCATION = Reserve(size=16_000_000, share=0.05)


class Journal:
    """Lines in a file. `append` collects them, `commit` writes and syncs them together.

    `write` only writes them: they then survive a crash of this process, but not of the host. From
    the first write or `rewrite` on, space beyond the end of the file is preallocated. Used from one
    thread. The caller holds the folder's lock, so there is no other writer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pending: list[bytes] = []
        self._unsynced: list[bytes] = []
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = self._written = os.fstat(self._file).st_size
        self._is_torn = False
        #: Whether the folder may still name the file that a rewrite has replaced.
        self._is_replacing = False
        #: The offset up to which blocks are allocated; 0 if that is not known.
        self._room_end = self._room = 0

    @property
    def size(self) -> int:
        """Durable bytes in the file."""
        return self._size

    @property
    def has_pending(self) -> bool:
        """Whether lines wait for a commit."""
        return bool(self._pending or self._unsynced or self._is_replacing)

    def read(self) -> list[bytes]:
        """Return the lines of the file, without an incomplete last one.

        An incomplete line was never committed, so nothing was done because of it. The next write
        removes it first.
        """
        whole = self.path.read_bytes()
        lines = whole.split(b"\n")
        rest = lines.pop()
        self._is_torn = bool(rest)
        self._size = self._written = len(whole) - len(rest)
        return lines

    def append(self, line: bytes) -> None:
        """Add a line, without its newline, to the next commit."""
        self._pending.append(line)

    def write(self) -> None:
        """Hand everything appended so far to the kernel, which keeps it if this process dies.

        Raises:
            JournalFailed: the file is unchanged, the lines wait for the next commit.

        """
        if not self._pending:
            return
        group = b"\n".join(self._pending) + b"\n"
        try:
            self._drop_partial_line()
            self._write(group)
        except OSError as error:
            # A partly written group must not stay in front of its repetition.
            self._cut_back(self._written)
            raise self._failure(error) from error
        self._written += len(group)
        self._unsynced += self._pending
        self._pending.clear()
        self._preallocate()

    def commit(self) -> None:
        """Make everything appended so far durable.

        Raises:
            JournalFailed: nothing of it is durable, all of it waits for the next commit.

        """
        self.write()
        if not self.has_pending:
            return
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._write_again()
            raise self._failure(error) from error
        self._end_replacing()
        self._size = self._written
        self._unsynced.clear()

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace the file with these lines atomically and durably; they include what is pending.

        Raises:
            JournalFailed: the old file stays, and so does what is pending; or the file is replaced,
                but not durably before the next commit.

        """
        fresh = self.path.with_suffix(".tmp")
        try:
            file = _write_new(fresh, lines)
            fresh.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise JournalFailed(f"cannot write {fresh}: {error.strerror}") from error
        self._go_on_in(file)
        self._end_replacing()

    def close(self) -> None:
        """Close the file; pending lines are lost, as after a kill."""
        os.close(self._file)

    def _go_on_in(self, file: int) -> None:
        os.close(self._file)
        self._file = file
        self._is_torn = False
        self._is_replacing = True
        self._size = self._written = os.fstat(file).st_size
        self._pending.clear()
        self._unsynced.clear()
        self._room_end = 0
        self._preallocate()

    def _end_replacing(self) -> None:
        """Make a rewrite durable if it is not yet; raises JournalFailed if that cannot be done."""
        if not self._is_replacing:
            return
        folder = self.path.parent
        try:
            _sync_folder(folder)
        except OSError as error:
            raise JournalFailed(f"cannot write {folder}: {error.strerror}") from error
        self._is_replacing = False

    def _write(self, group: bytes) -> None:
        view = memoryview(group)
        while view:
            view = view[os.write(self._file, view) :]

    def _drop_partial_line(self) -> None:
        """Remove an incomplete last line, which would swallow the next one."""
        if self._is_torn:
            os.ftruncate(self._file, self._written)
            self._is_torn = False

    def _write_again(self) -> None:
        """Write again what was not synced: the kernel may have dropped it."""
        self._cut_back(self._size)
        self._written = self._size
        self._pending = self._unsynced + self._pending
        self._unsynced = []
        with contextlib.suppress(JournalFailed):
            self.write()

    def _cut_back(self, size: int) -> None:
        with contextlib.suppress(OSError):
            if os.fstat(self._file).st_size > size:  # otherwise it would only free the allocation
                os.ftruncate(self._file, size)
                self._room_end = 0

    def _preallocate(self) -> None:
        """Allocate space ahead; if the disk has none, the next write tries again."""
        room = self._room_end - self._written
        if room >= self._room // 2 > 0:
            return
        with contextlib.suppress(OSError):
            space = space_of(self._file)
            self._room = min(PREALLOCATION.of(space), space.free // 2)
            if linux.preallocate(self._file, self._written, self._room):
                self._room_end = self._written + self._room

    def _failure(self, error: OSError) -> JournalFailed:
        return JournalFailed(f"cannot write {self.path}: {error.strerror}")


def _write_new(path: Path, lines: Iterable[bytes]) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    try:
        with open(file, "wb", closefd=False) as stream:
            stream.writelines(line + b"\n" for line in lines)
        os.fdatasync(file)
    except OSError:
        os.close(file)
        raise
    return file


def _sync_folder(folder: Path) -> None:
    # Without this, the old file might come back after a power cut, without what was appended since.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
