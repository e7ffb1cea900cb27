"""`warren up --reload`: has saved handlers imported anew, and says in a line what came of it."""

import threading
from collections.abc import Sequence

from warren.wiring.all_in_one import AllInOne
from warren.wiring.source_watch import SourceWatch, watched_folders


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
