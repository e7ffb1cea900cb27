"""What the gateway remembers about a registered executor: how to call it, the boot to continue."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

from warren.executor.core.state_folder import StateFolder

log = structlog.get_logger()


class Note(msgspec.Struct, frozen=True):
    """A registered executor's URL, its `RemoteClient.appname`, and the boot that left runs.

    One that was drained has left nothing, and is not served until `drained_until` (epoch seconds).
    """

    url: str
    appname: str = ""
    boot_id: str = ""
    drained_until: float = 0.0


class RemoteFolder:
    """The state folder of one registered executor, locked while it is served.

    Raises:
        StateFolderInUse: another process serves it.
        OSError: it cannot be used.

    """

    def __init__(self, state_dir: Path, app: str, address: str) -> None:
        self.state = StateFolder(state_dir / app, address)
        self._path = _note_of(state_dir, app, address)

    def boot_id_of(self, url: str) -> str:
        """Return the boot that left runs at this URL; empty if none did."""
        note = _read(self._path)
        return note.boot_id if note is not None and note.url == url else ""

    def save(self, note: Note) -> None:
        """Save what the next start must know."""
        _write(self._path, note)

    def forget(self) -> None:
        """Do not serve it at the next start."""
        self._path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete what an executor left that has reported everything; raises OSError.

        Its journal has disk space set aside, and addresses come and go.
        """
        self.state.discard()


def note_drained(state_dir: Path, app: str, address: str, note: Note) -> None:
    """Save what the next start must know of one that is not served; raises OSError."""
    _write(_note_of(state_dir, app, address), note)


def forget_drained(state_dir: Path, app: str, address: str) -> None:
    """Let the next start serve one that was drained."""
    _note_of(state_dir, app, address).unlink(missing_ok=True)


def remembered(state_dir: Path) -> Iterator[tuple[str, Note]]:
    """Yield the app and note of each executor that the last gateway served."""
    for path in sorted(state_dir.glob("*/*/remote.json")):
        note = _read(path)
        if note is not None:
            yield path.parts[-3], note


def _note_of(state_dir: Path, app: str, address: str) -> Path:
    return state_dir / app / address / "remote.json"


def _write(path: Path, note: Note) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(note))
    fresh.replace(path)


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        log.warning("remote_note_skipped", path=str(path), error=str(error))
        return None
