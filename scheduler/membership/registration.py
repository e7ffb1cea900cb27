"""What the registry keeps of executors: heartbeats, load, the account that speaks for each boot.

The load in heartbeats is kept as one row per executor and minute, for a week. Every scheduler does
it, from the registry; the table's key keeps one row of each minute.

The broker vouches for the account that published a message. So a stolen app key alone, without the
app's broker account, is not enough to speak for a live boot. The registrar stores the account that
spoke first with the boot's registration, so all schedulers, and those that start later, go by the
same one.

The settings of apps, which people change and routing uses, are read again once a second.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from warren.broker.errors import Forged
from warren.broker.messages import Boot, Heartbeat
from warren.sql.engine import Database
from warren.sql.instants import DAY_MS, HOUR_MS, MINUTE_MS
from warren.sql.models import Registration
from warren.sql.registry import apps, presence
from warren.sql.registry.apps import RoutingSettings
from warren.sql.registry.presence import LoadPoint, state

#: For how many seconds settings are used before they are read again.
READ_SECONDS = 1.0
_NONE = RoutingSettings((), "")


class AppSettings:
    """A cache, for one thread; `clock` is monotonic seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._settings: dict[int, RoutingSettings] = {}
        self._read_at = float("-inf")

    def __call__(self, app_id: int) -> RoutingSettings:
        now = self._clock()
        if now - self._read_at >= READ_SECONDS:
            self._settings = self._database.read(apps.routing_settings)
            self._read_at = now
        return self._settings.get(app_id, _NONE)


def registration(beat: Heartbeat, now_ms: int, account: str | None = None) -> presence.Beat:
    """Return the registry's record of a heartbeat, which this account of the broker sent."""
    others: dict[str, Any] = {
        "ailments": beat.each_health_issue,
        "returns_seconds": beat.returns_seconds,
    }
    if beat.unstored_logs or beat.log_fault:
        others |= {"unstored_logs": beat.unstored_logs, "log_fault": beat.log_fault}
    load = msgspec.to_builtins(beat.load) | others
    return presence.Beat(
        kind=presence.EXECUTOR,
        app=beat.app,
        address=beat.address,
        boot_id=beat.boot_id,
        beat_at=now_ms,
        load=msgspec.json.encode(load).decode(),
        draining=beat.draining,
        account=account,
        catalogue=beat.catalogue,
    )


def stored_load(row: Registration) -> dict[str, Any]:
    """Return the load in a process's last heartbeat; empty if it cannot be read."""
    try:
        load = json.loads(row.load or "{}")
    except ValueError:
        return {}
    return load if isinstance(load, dict) else {}


def stored_returns_seconds(row: Registration) -> float:
    """Return how long an executor may be silent and still come back with its runs."""
    seconds = stored_load(row).get("returns_seconds", 0)
    return float(seconds) if isinstance(seconds, int | float) else 0.0


KEPT_MS = 7 * DAY_MS
#: The longest wait; a minute is recorded this late at most.
POLL_SECONDS = 5.0
_FIGURES = ("slots", "running", "waiting", "cpu_percent", "memory_percent")
#: What a SMALLINT holds.
_LARGEST = 32_767


class LoadRecorder:
    """The role that records load."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._recorded_at = 0
        self._cleared_at = 0

    def run_round(self, now_ms: int) -> float:
        """Record the minute, once; return the seconds to wait."""
        minute_at = now_ms - now_ms % MINUTE_MS
        if minute_at > self._recorded_at:
            self._database.write(lambda session: _record(session, minute_at, now_ms))
            self._recorded_at = minute_at
        if now_ms - self._cleared_at >= HOUR_MS and not self._clear(now_ms):
            self._cleared_at = now_ms
        return POLL_SECONDS

    def _clear(self, now_ms: int) -> bool:
        """Delete a chunk of expired points; return False if there were none."""
        return self._database.write(
            lambda session: presence.forget_loads(session, before_ms=now_ms - KEPT_MS)
        )


def _record(session: Session, minute_at: int, now_ms: int) -> None:
    presence.keep_loads(session, _points(session, minute_at, now_ms))


def _points(session: Session, minute_at: int, now_ms: int) -> Iterator[LoadPoint]:
    for row in presence.listing(session, presence.EXECUTOR):
        load = {name: _number(value) for name, value in stored_load(row).items()}
        if state(row, now_ms).is_online and load.get("slots"):
            figures = {name: load.get(name, 0) for name in _FIGURES}
            yield LoadPoint(executor_id=row.id, minute_at=minute_at, **figures)


def _number(value: object) -> int:
    """Return a number that fits the column; 0 if the value is not a number."""
    return min(max(round(value), 0), _LARGEST) if isinstance(value, int | float) else 0


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
