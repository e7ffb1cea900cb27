"""Executors, schedulers, consoles and pauses as shown to users."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from warren.broker.codec import catalogue_of
from warren.broker.errors import Malformed
from warren.broker.messages import Catalogue, HealthIssue
from warren.resources.cluster import Blocker, Executor, Handler, Pause, Scheduler
from warren.resources.instant import Instant
from warren.scheduler.membership.presence import (
    ISSUES_KEY,
    MAILS_KEY,
    REJECTED_KEY,
    UNREACHABLE_KEY,
)
from warren.scheduler.membership.registration import stored_load
from warren.scheduler.membership.self_health import SelfIssue
from warren.sql.models import Registration
from warren.sql.registry import presence
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import ProcessState, health_issues, state


def pause_facts(pause: ShownPause | None) -> dict[str, Any]:
    """Return start, end, author and reason of a pause; all None without a pause."""
    return {
        "paused_at": Instant.of(pause.since_at) if pause else None,
        "paused_until": Instant.if_any(pause.until_at) if pause else None,
        "paused_by": (pause.paused_by or None) if pause else None,
        "paused_reason": (pause.reason or None) if pause else None,
    }


def pause_of(pause: ShownPause) -> Pause:
    """Return a pause as programs see it."""
    return Pause(
        app=pause.app,
        since_at=Instant.of(pause.since_at),
        until_at=Instant.if_any(pause.until_at),
        paused_by=pause.paused_by,
        reason=pause.reason,
    )


_QUEUE = HealthIssue.QUEUE.lower()
#: The address lists of apps, by app name; apps without a list are absent.
Lists = Mapping[str, tuple[str, ...]]


class ExecutorView(NamedTuple):
    """An executor; `listed`: it is in its app's address list, None if there is no list.

    An executor that is listed but has never registered has no boot and no load. `catalogue` is what
    it can run; None if it does not say, or was not asked for here.
    """

    app: str
    address: str
    state: ProcessState
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
    languages: tuple[str, ...]
    code_version: str
    catalogue: Catalogue | None
    #: How many finished logs wait to be stored, and why they are not.
    unstored_logs: int = 0
    log_fault: str = ""

    @property
    def key(self) -> str:
        """Its sort key, APP/ADDRESS."""
        return f"{self.app}/{self.address}"

    @property
    def is_online(self) -> bool:
        """Whether its state counts as online."""
        return self.state.is_online

    @property
    def is_hindered(self) -> bool:
        """Whether routes pass over it for its problems."""
        issues = map(HealthIssue.named, self.ailments)
        return any(issue is None or issue.hinders_runs for issue in issues)


class NodeView(NamedTuple):
    """A scheduler or a console.

    `failing` are the roles whose last round failed; `rejected` the executors, as APP/ADDRESS, whose
    heartbeats have lately had no valid signature; `mails` is whether it sends e-mails. `ailments`
    are the names of its problems; `unreachable` the executors that get nothing from it, as their
    queues cannot be reached.
    """

    node: str
    state: ProcessState
    boot_id: str
    boot_at: int
    beat_at: int
    failing: tuple[str, ...]
    rejected: tuple[str, ...]
    mails: bool
    ailments: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()

    @property
    def is_online(self) -> bool:
        """Whether it shows signs of life."""
        return self.state.is_online

    @property
    def judges_nobody(self) -> bool:
        """Whether one of its problems keeps it from declaring executors offline."""
        return bool({*self.ailments} & {issue for issue in SelfIssue if issue.stops_judging})


def read_catalogues(session: Session, rows: Iterable[Registration]) -> dict[str, Catalogue]:
    """Return what executors can run, by the fingerprint that the registry has of each."""
    stored = presence.read_catalogues(session, {row.catalogue for row in rows if row.catalogue})
    by_fingerprint = {}
    for fingerprint, contents in stored.items():
        with suppress(Malformed):  # a page shows the rest
            by_fingerprint[fingerprint] = catalogue_of(contents.encode())
    return by_fingerprint


def executor_views(
    rows: Iterable[Registration],
    lists: Lists,
    now_ms: int,
    known: Mapping[str, Catalogue] = MappingProxyType({}),
    unreachable: Collection[str] = (),
) -> list[ExecutorView]:
    """Return executors sorted by app and address, including those that are only listed.

    `known` is what `read_catalogues` returned, if the caller needs it; `unreachable` are those that
    no scheduler reaches, as APP/ADDRESS.
    """
    views = {
        (row.app, row.address): executor_view(row, now_ms, lists, known, unreachable)
        for row in rows
    }
    for app, addresses in lists.items():
        for address in addresses:
            row = Registration(app=app, address=address, boot_id="", boot_at=0, beat_at=0)
            views.setdefault((app, address), executor_view(row, now_ms, lists))
    return [views[key] for key in sorted(views)]


def executor_view(
    row: Registration,
    now_ms: int,
    lists: Lists,
    known: Mapping[str, Catalogue] = MappingProxyType({}),
    unreachable: Collection[str] = (),
) -> ExecutorView:
    """Return what users see of a registered executor; `known` are catalogues by fingerprint."""
    load, listed = stored_load(row), lists.get(row.app)
    catalogue = known.get(row.catalogue or "")
    return ExecutorView(
        app=row.app,
        address=row.address,
        state=state(row, now_ms),
        listed=None if listed is None else row.address in listed,
        boot_id=row.boot_id,
        boot_at=row.boot_at,
        beat_at=row.beat_at,
        draining=bool(row.draining),
        ailments=(
            *health_issues(load),
            *((_QUEUE,) if f"{row.app}/{row.address}" in unreachable else ()),
        ),
        slots=_number(load, "slots"),
        running=_number(load, "running"),
        waiting=_number(load, "waiting"),
        cpu_percent=_number(load, "cpu_percent"),
        memory_percent=_number(load, "memory_percent"),
        handlers=tuple(handler.name for handler in catalogue.handlers) if catalogue else (),
        languages=catalogue.languages if catalogue else (),
        code_version=catalogue.code_version if catalogue else "",
        catalogue=catalogue,
        unstored_logs=_number(load, "unstored_logs"),
        log_fault=str(load.get("log_fault", "")),
    )


def executor_of(view: ExecutorView, blocked_by: list[Blocker], *, handler_facts: bool) -> Executor:
    """Return an executor as programs see it."""
    catalogue = view.catalogue
    handlers = catalogue.handlers if catalogue and handler_facts else ()
    return Executor(
        **_values(view, without={"catalogue"}),
        missing=[*catalogue.missing] if catalogue else [],
        handler_facts=[
            Handler(
                **msgspec.structs.asdict(handler)
                | {"schema": msgspec.json.decode(handler.schema) if handler.schema else None}
            )
            for handler in handlers
        ],
        blocked_by=blocked_by,
    )


def scheduler_of(view: NodeView) -> Scheduler:
    """Return a scheduler as programs see it."""
    return Scheduler(**_values(view))


def _values(view: ExecutorView | NodeView, without: Collection[str] = ()) -> dict[str, Any]:
    values = {
        name: [*value] if isinstance(value, tuple) else value
        for name, value in view._asdict().items()
        if name not in without
    }
    times = {"boot_at": Instant.if_any(view.boot_at), "beat_at": Instant.if_any(view.beat_at)}
    return values | times


def node_view(row: Registration, now_ms: int) -> NodeView:
    """Return the view of a scheduler or a console."""
    load = stored_load(row)
    return NodeView(
        node=row.address,
        state=state(row, now_ms),
        boot_id=row.boot_id,
        boot_at=row.boot_at,
        beat_at=row.beat_at,
        failing=_words(load, "failing"),
        rejected=_words(load, REJECTED_KEY),
        mails=load.get(MAILS_KEY) is True,
        ailments=_words(load, ISSUES_KEY),
        unreachable=_words(load, UNREACHABLE_KEY),
    )


class SchedulersView(NamedTuple):
    """What all online schedulers say; `unreachable` are the executors that none of them reaches.

    `is_stalled`: no run arrives, as the broker confirms nothing that any of them sends. `ailments`
    are the names of the problems that any of them has.
    """

    are_online: bool
    is_stalled: bool
    unreachable: frozenset[str]
    ailments: frozenset[str] = frozenset()


def schedulers_view(rows: Iterable[Registration], now_ms: int) -> SchedulersView:
    """Return what the schedulers with these registrations say together."""
    online = [node for row in rows if (node := node_view(row, now_ms)).is_online]
    stopping = {issue for issue in SelfIssue if issue.stops_sending}
    return SchedulersView(
        are_online=bool(online),
        is_stalled=bool(online) and all(stopping & {*node.ailments} for node in online),
        unreachable=frozenset.intersection(*(frozenset(node.unreachable) for node in online))
        if online
        else frozenset(),
        ailments=frozenset(ailment for node in online for ailment in node.ailments),
    )


def read_schedulers(session: Session, now_ms: int) -> SchedulersView:
    rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
    return schedulers_view(rows, now_ms)


def living_handlers(executors: Iterable[ExecutorView]) -> dict[str, set[str]]:
    """Return the handler names of each app's online executors."""
    handlers: dict[str, set[str]] = defaultdict(set)
    for executor in executors:
        if executor.is_online:
            handlers[executor.app] |= set(executor.handlers)
    return handlers


def _number(load: Mapping[str, Any], name: str) -> Any:
    value = load.get(name, 0)
    return value if isinstance(value, int | float) else 0


def _words(load: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = load.get(name, ())
    return tuple(map(str, value)) if isinstance(value, list) else ()
