"""What keeps the cluster from working at present: paused, no scheduler, no broker."""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.orm import Session

from admin_web.console_services import ConsoleServices
from scheduler.views.process_view import node_view
from sql.registry import cluster, presence


class ConditionKind(StrEnum):
    """What is wrong."""

    PAUSED = "paused"
    NO_SCHEDULER = "schedulers"
    NO_BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong, since when (0 = ever), and who made it so."""

    kind: ConditionKind
    since_ms: int
    who: str = ""


class ClusterConditions:
    """Reads what is wrong; cheap enough for every page."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._broker_lost_at_ms = 0

    def read(self) -> list[Condition]:
        """Return all that is wrong, the worst first."""
        found = self._services.database.read(self._stored)
        if lost_at_ms := self._broker_loss():
            found.append(Condition(ConditionKind.NO_BROKER, lost_at_ms))
        return found

    def _stored(self, session: Session) -> list[Condition]:
        now_ms = self._services.now_ms()
        rows = presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        found = []
        if not any(node_view(row, now_ms).is_online for row in rows):
            last = max((row.beat_at for row in rows), default=0)
            found.append(Condition(ConditionKind.NO_SCHEDULER, last))
        paused_at, who = cluster.pause(session)
        if paused_at:
            found.append(Condition(ConditionKind.PAUSED, paused_at, who))
        return found

    def _broker_loss(self) -> int:
        """Return since when this console has seen no broker, 0 while it sees one."""
        if self._services.is_broker_up():
            self._broker_lost_at_ms = 0
        elif not self._broker_lost_at_ms:
            self._broker_lost_at_ms = self._services.now_ms()
        return self._broker_lost_at_ms
