"""Which broker account speaks for which boot: the first one heard keeps the right.

The broker vouches for the account that published a message. So a stolen app key alone, without the
app's broker account, is not enough to speak for a live boot.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from broker.errors import Forged

#: A boot silent for this long is dead, and its account is forgotten.
LIVING_SECONDS = 60.0
#: Number of known boots at which dead ones are cleaned up.
TIDY_COUNT = 10_000

_Boot = tuple[str, str, str]


@dataclass(slots=True)
class _Account:
    user: str
    heard_at: float


class BootAccounts:
    """The accounts by boot, as this scheduler heard them. `clock` is monotonic. Thread-safe.

    Every `tidy_count` boots, dead ones are forgotten.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, tidy_count: int = TIDY_COUNT
    ) -> None:
        self._clock = clock
        self._tidy_count = tidy_count
        self._lock = threading.Lock()
        self._accounts: dict[_Boot, _Account] = {}

    def __len__(self) -> int:
        """Return how many boots are known, living or not."""
        return len(self._accounts)

    def hear(self, boot: _Boot, user: str) -> None:
        """Note a sign of life of (app, address, boot id).

        Raises:
            Forged: the boot is live and belongs to another account.

        """
        with self._lock:
            known = self._living(boot)
            if known is None:
                self._tidy()
                known = self._accounts[boot] = _Account(user, self._clock())
            _compare(boot, known, user)
            known.heard_at = self._clock()

    def prove(self, boot: _Boot, user: str) -> None:
        """Check that a message for a live boot comes from that boot's account.

        Raises:
            Forged: it comes from another account.

        """
        with self._lock:
            known = self._living(boot)
        if known is not None:
            _compare(boot, known, user)

    def _living(self, boot: _Boot) -> _Account | None:
        known = self._accounts.get(boot)
        return known if known and self._is_living(known) else None

    def _is_living(self, account: _Account) -> bool:
        return self._clock() - account.heard_at <= LIVING_SECONDS

    def _tidy(self) -> None:
        if len(self._accounts) % self._tidy_count == self._tidy_count - 1:
            self._accounts = {
                k: account for k, account in self._accounts.items() if self._is_living(account)
            }


def _compare(boot: _Boot, known: _Account, user: str) -> None:
    if known.user != user:
        app, address, _ = boot
        raise Forged(
            f"expected account of {app}/{address} to be {known.user!r}, got: {user[:100]!r}"
        )
