"""What the gateway remembers about a registered executor: how to call it, the boot to continue."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import structlog

from executor.core.state_folder import StateFolder

log = structlog.get_logger()


class Note(msgspec.Struct, frozen=True):
    """A registered executor's URL, its `RemoteClient.appname`, and the boot that left runs."""

    url: str
    appname: str = ""
    boot_id: str = ""


class RemoteFolder:
    """The state folder of one registered executor, locked while it is served.

    Raises:
        StateFolderInUse: another process serves it.
        OSError: it cannot be used.

    """

    def __init__(self, state_dir: Path, app: str, address: str) -> None:
        self.state = StateFolder(state_dir / app, address)
        self._path = _note_in(self.state.path)

    def boot_id_of(self, url: str) -> str:
        """Return the boot that left runs at this URL; empty if none did."""
        note = _read(self._path)
        return note.boot_id if note is not None and note.url == url else ""

    def save(self, note: Note) -> None:
        """Save what the next start must know."""
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(note))
        fresh.replace(self._path)

    def forget(self) -> None:
        """Do not serve it at the next start."""
        self._path.unlink(missing_ok=True)


def remembered(state_dir: Path) -> Iterator[tuple[str, Note]]:
    """Yield the app and note of each executor that the last gateway served."""
    for path in sorted(state_dir.glob("*/*/remote.json")):
        note = _read(path)
        if note is not None:
            yield path.parts[-3], note


def _note_in(folder: Path) -> Path:
    return folder / "remote.json"


def _read(path: Path) -> Note | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeError) as error:
        log.warning("remote_note_skipped", path=str(path), error=str(error))
        return None
