"""Banners for what keeps the cluster from working: pauses, no scheduler, no broker.

Alarms that reach nobody are shown too. Pages reload the banners regularly.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from flask import Flask, g, render_template
from sqlalchemy.orm import Session

from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.admin_web.visitors import visitor
from warren.scheduler.actor import Right
from warren.scheduler.views.process_view import node_view
from warren.sql.alarms import alarm_listing
from warren.sql.registry import pauses, presence
from warren.sql.registry.pauses import ShownPause


class ConditionKind(StrEnum):
    """What is wrong."""

    PAUSED = "paused"
    APP_PAUSED = "app"
    NO_SCHEDULER = "schedulers"
    NO_BROKER = "broker"
    UNDELIVERED = "alarms"


@dataclass(frozen=True, slots=True)
class Condition:
    """A problem since `since_ms` (0 = always); pauses have further facts, and alarms a `count`."""

    kind: ConditionKind
    since_ms: int
    who: str = ""
    reason: str = ""
    until_ms: int = 0
    app_id: int = 0
    app: str = ""
    count: int = 0


class ClusterConditions:
    """Reads the current conditions; cheap enough for every page."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._broker_lost_at_ms = 0

    def read(self, app_ids: Collection[int] | None) -> list[Condition]:
        """Return all conditions, the worst first; pauses and alarms of these apps, None = all."""
        conditions = self._services.database.read(lambda session: self._stored(session, app_ids))
        if lost_at_ms := self._broker_loss():
            conditions.append(Condition(ConditionKind.NO_BROKER, lost_at_ms))
        return conditions

    def _stored(self, session: Session, app_ids: Collection[int] | None) -> list[Condition]:
        now_ms = self._services.now_ms()
        rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        conditions = []
        if not any(node_view(row, now_ms).is_online for row in rows):
            last = max((row.beat_at for row in rows), default=0)
            conditions.append(Condition(ConditionKind.NO_SCHEDULER, last))
        if count := alarm_listing.count_undelivered(session, app_ids, now_ms):
            conditions.append(Condition(ConditionKind.UNDELIVERED, 0, count=count))
        return conditions + [_paused(pause) for pause in pauses.in_force(session, now_ms, app_ids)]

    def _broker_loss(self) -> int:
        """Return since when this console has had no connection to the broker; 0 if it has one."""
        if self._services.is_broker_up():
            self._broker_lost_at_ms = 0
        elif not self._broker_lost_at_ms:
            self._broker_lost_at_ms = self._services.now_ms()
        return self._broker_lost_at_ms


def _paused(shown_pause: ShownPause) -> Condition:
    return Condition(
        ConditionKind.PAUSED if shown_pause.app is None else ConditionKind.APP_PAUSED,
        shown_pause.since_at,
        shown_pause.paused_by,
        shown_pause.reason,
        shown_pause.until_at or 0,
        shown_pause.app_id,
        shown_pause.app or "",
    )


class ConditionPages:
    """Banners for everybody who has signed in, on every page."""

    name = "conditions"

    def __init__(self, conditions: ClusterConditions) -> None:
        self._conditions = conditions

    @route("/conditions", Right.VIEW)
    def show(self) -> str:
        """Show what is wrong with the cluster; empty if nothing is."""
        return render_template("conditions.html", viewer=visitor())

    def install(self, app: Flask) -> None:
        """Provide the conditions to the layout."""
        app.jinja_env.globals["conditions"] = self._read

    def _read(self) -> list[Condition]:
        """Return the conditions that the visitor may see; read once a request."""
        if "conditions" not in g:
            g.conditions = self._conditions.read(visitor().app_ids)
        conditions: list[Condition] = g.conditions
        return conditions
