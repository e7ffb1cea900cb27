"""Which broker account may speak for which boot: the first one seen, stored in the registry.

The broker vouches for the account that published a message. So a stolen app key alone, without the
app's broker account, is not enough to speak for a live boot. The registrar stores the account with
the boot's registration, so all schedulers, and those that start later, go by the same one.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from warren.broker.errors import Forged
from warren.broker.messages import Boot

#: A boot that holds no address and is silent for this long is dead, and its account is forgotten.
LIVING_SECONDS = 60.0
#: The number of known boots from which on dead ones are cleaned up.
TIDY_COUNT = 10_000


@dataclass(slots=True)
class _Account:
    user: str
    heard_at: float


class BootAccounts:
    """The accounts by boot, as this scheduler read them from the registry. Thread-safe.

    Every `tidy_count` boots, dead ones are forgotten. `clock` is monotonic.

    Args:
        holder: returns the boot id that holds the address of an app, as far as is known here.

    """

    def __init__(
        self,
        holder: Callable[[str, str], str | None],
        clock: Callable[[], float] = time.monotonic,
        *,
        tidy_count: int = TIDY_COUNT,
    ) -> None:
        self._holder = holder
        self._clock = clock
        self._tidy_count = tidy_count
        self._lock = threading.Lock()
        self._accounts: dict[Boot, _Account] = {}

    def __len__(self) -> int:
        """Return how many boots are known, living or not."""
        return len(self._accounts)

    def settle(self, boot: Boot, user: str) -> None:
        """Record what the registry says about a boot."""
        with self._lock:
            if boot not in self._accounts:
                self._tidy()
            self._accounts[boot] = _Account(user, self._clock())

    def knows(self, boot: Boot) -> bool:
        """Return whether the account of a boot is known; if not, read the registry."""
        with self._lock:
            return self._living(boot) is not None

    def prove(self, boot: Boot, user: str) -> None:
        """Check that a message for a boot whose account is known comes from that account.

        Raises:
            Forged: it comes from another account.

        """
        with self._lock:
            known = self._living(boot)
            if known is not None:
                _compare(boot, known, user)
                known.heard_at = self._clock()

    def _living(self, boot: Boot) -> _Account | None:
        known = self._accounts.get(boot)
        return known if known and self._is_living(boot, known) else None

    def _is_living(self, boot: Boot, account: _Account) -> bool:
        if self._clock() - account.heard_at <= LIVING_SECONDS:
            return True
        return self._holder(boot.app, boot.address) == boot.boot_id

    def _tidy(self) -> None:
        if len(self._accounts) % self._tidy_count == self._tidy_count - 1:
            self._accounts = {
                boot: account
                for boot, account in self._accounts.items()
                if self._is_living(boot, account)
            }


def _compare(boot: Boot, known: _Account, user: str) -> None:
    if known.user != user:
        raise Forged(
            f"expected account of {boot.app}/{boot.address} to be {known.user!r}, "
            f"got: {user[:100]!r}"
        )
