"""Registered processes as pages show them: the row, its state, and the load that it told."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sql.liveness import state
from sql.models import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """An executor, scheduler or console.

    `listed` is whether its app's own list names it, None when the app has none. What was never
    seen has no boot and no load.
    """

    app: str
    address: str
    state: str
    boot_id: str = ""
    boot_at: int = 0
    beat_at: int = 0
    listed: bool | None = None
    load: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is ordered by."""
        return f"{self.app}/{self.address}"

    @property
    def handlers(self) -> list[str]:
        """The names of its handlers."""
        return [str(name) for name in self.load.get("handlers", ())]

    @property
    def failing(self) -> list[str]:
        """The roles of a scheduler whose last round failed."""
        return [str(name) for name in self.load.get("failing", ())]

    def number(self, name: str) -> float:
        """Return a figure of its load, 0 when it has told none."""
        found = self.load.get(name, 0)
        return found if isinstance(found, int | float) else 0


def process_of(row: Registration, now_ms: int, listed: bool | None = None) -> Process:
    """Return a registered process as a page shows it."""
    return Process(
        app=row.registry_key,
        address=row.registry_value,
        state=state(row, now_ms),
        boot_id=row.boot_id,
        boot_at=row.boot_at,
        beat_at=row.beat_at,
        listed=listed,
        load=_load(row.load),
    )


def executors(
    rows: Iterable[Registration], lists: dict[str, tuple[str, ...]], now_ms: int
) -> list[Process]:
    """Return executors by app and address, those that are only listed included."""
    found = {}
    for row in rows:
        listed = lists.get(row.registry_key)
        is_listed = None if listed is None else row.registry_value in listed
        one = process_of(row, now_ms, is_listed)
        found[one.app, one.address] = one
    for app, addresses in lists.items():
        for address in addresses:
            absent = Process(app=app, address=address, state="absent", listed=True)
            found.setdefault((app, address), absent)
    return [found[key] for key in sorted(found)]


def _load(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
