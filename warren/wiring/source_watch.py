"""`warren up --reload`: watches the files of handlers, and has saved ones imported anew."""

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from warren.wiring.all_in_one import AllInOne

#: Seconds between two looks where watchfiles, which is told by the kernel, is not installed.
POLL_SECONDS = 0.1
#: Most files that are looked at each time.
MAX_FILES = 5_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


class Reloading:
    """Reloads the executors of one `warren up` whenever their handlers are saved."""

    def __init__(self, platform: AllInOne, sources: Sequence[str]) -> None:
        self._platform = platform
        self._watch = SourceWatch(watched_folders(sources), self._reload)
        self._lock = threading.Lock()
        self._told: str | None = None

    def start(self) -> None:
        """Start watching the handlers."""
        self._watch.start()

    def stop(self) -> None:
        """Stop watching."""
        self._watch.stop()

    def _reload(self) -> None:
        with self._lock:
            self._told = None
        self._platform.reload(self._tell)

    def _tell(self, why: str) -> None:
        """Print one line for all executors; they import the same code."""
        with self._lock:
            if self._told == why:
                return
            self._told = why
        words = f"not reloaded, the old code goes on: {why}" if why else "handlers reloaded"
        print(words, flush=True)


def watched_folders(sources: Sequence[str]) -> list[Path]:
    """Return the folders whose Python files count: those of files, and the packages of modules."""
    folders = set()
    for source in sources:
        path = Path(source)
        if path.suffix == ".py":
            folders.add(path.absolute().parent)
        else:
            top = Path(source.partition(".")[0]).absolute()
            folders.add(top if top.is_dir() else Path.cwd())
    return sorted(folders)


class SourceWatch:
    """A thread that calls `on_change` after Python files in these folders have changed."""

    def __init__(self, folders: Sequence[Path], on_change: Callable[[], None]) -> None:
        self._folders = folders
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source watch", daemon=True)
        self._seen = _stamps(folders)

    def start(self) -> None:
        """Start watching; what was saved since the watch was made counts too."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        if importlib.util.find_spec("watchfiles") is None:
            self._poll()
        else:
            self._listen()

    def _poll(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._look()

    def _listen(self) -> None:
        from watchfiles import PythonFilter, watch  # noqa: PLC0415 - an extra

        self._look()
        for _ in watch(
            *self._folders,
            watch_filter=PythonFilter(),
            debounce=100,
            step=20,
            stop_event=self._stopping,
            raise_interrupt=False,
        ):
            self._look()

    def _look(self) -> None:
        stamps = _stamps(self._folders)
        if stamps != self._seen:
            self._seen = stamps
            self._on_change()


def _stamps(folders: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """Return when each file was last changed, and how long it is."""
    stamps = {}
    for path in _files(folders):
        try:
            status = path.stat()
        except OSError:
            continue  # it is being replaced
        stamps[path] = (status.st_mtime_ns, status.st_size)
        if len(stamps) == MAX_FILES:
            break
    return stamps


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    left = list(folders)
    while left:
        folder = left.pop(0)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.suffix == ".py":
                yield entry
            elif entry.is_dir() and entry.name not in _SKIPPED and not entry.name.startswith("."):
                left.append(entry)
