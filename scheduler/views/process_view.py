"""Executors, schedulers and consoles as they are shown: their state and reported load."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scheduler.membership.registration import stored_load
from sql.models import Registration
from sql.registry.liveness import ONLINE, ailments, state

#: By app, the addresses that it may be routed to, where people gave it a list.
Lists = Mapping[str, tuple[str, ...]]


class ExecutorView(NamedTuple):
    """An executor; `listed` is whether its app's own list names it, None when the app has none.

    One that is only listed, and was never seen, has no boot and no load.
    """

    app: str
    address: str
    state: str
    listed: bool | None
    boot_id: str
    boot_at: int
    beat_at: int
    draining: bool
    ailments: tuple[str, ...]
    slots: int
    running: int
    waiting: int
    cpu_percent: float
    memory_percent: float
    handlers: tuple[str, ...]

    @property
    def key(self) -> str:
        """What it is ordered by."""
        return f"{self.app}/{self.address}"

    @property
    def is_online(self) -> bool:
        """Whether it shows signs of life."""
        return self.state in ONLINE


class NodeView(NamedTuple):
    """A scheduler or a console; `failing` are the roles whose last round failed."""

    node: str
    state: str
    boot_id: str
    boot_at: int
    beat_at: int
    failing: tuple[str, ...]

    @property
    def is_online(self) -> bool:
        """Whether it shows signs of life."""
        return self.state in ONLINE


def executor_views(rows: Iterable[Registration], lists: Lists, now_ms: int) -> list[ExecutorView]:
    """Return executors by app and address, including those that are only listed."""
    found = {(row.app, row.address): executor_view(row, now_ms, lists) for row in rows}
    for app, addresses in lists.items():
        for address in addresses:
            row = Registration(app=app, address=address, boot_id="", boot_at=0, beat_at=0)
            found.setdefault((app, address), executor_view(row, now_ms, lists))
    return [found[key] for key in sorted(found)]


def executor_view(row: Registration, now_ms: int, lists: Lists) -> ExecutorView:
    """Return what is shown of an executor."""
    load, listed = stored_load(row), lists.get(row.app)
    return ExecutorView(
        app=row.app,
        address=row.address,
        state=state(row, now_ms),
        listed=None if listed is None else row.address in listed,
        boot_id=row.boot_id,
        boot_at=row.boot_at,
        beat_at=row.beat_at,
        draining=bool(row.draining),
        ailments=tuple(ailments(load)),
        slots=_number(load, "slots"),
        running=_number(load, "running"),
        waiting=_number(load, "waiting"),
        cpu_percent=_number(load, "cpu_percent"),
        memory_percent=_number(load, "memory_percent"),
        handlers=_words(load, "handlers"),
    )


def node_view(row: Registration, now_ms: int) -> NodeView:
    """Return what is shown of a scheduler or a console."""
    return NodeView(
        node=row.address,
        state=state(row, now_ms),
        boot_id=row.boot_id,
        boot_at=row.boot_at,
        beat_at=row.beat_at,
        failing=_words(stored_load(row), "failing"),
    )


def living_handlers(executors: Iterable[ExecutorView]) -> dict[str, set[str]]:
    """Return, for each app, the names of the handlers that its living executors have."""
    handlers: dict[str, set[str]] = defaultdict(set)
    for executor in executors:
        if executor.is_online:
            handlers[executor.app] |= set(executor.handlers)
    return handlers


def _number(load: Mapping[str, Any], name: str) -> Any:
    found = load.get(name, 0)
    return found if isinstance(found, int | float) else 0


def _words(load: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = load.get(name, ())
    return tuple(map(str, found)) if isinstance(found, list) else ()
