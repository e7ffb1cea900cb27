"""The command that acknowledges incidents."""

from sqlalchemy.orm import Session

from warren.scheduler.actor import Right
from warren.scheduler.app_names import is_line
from warren.scheduler.commands.audit_log import Action
from warren.scheduler.commands.command_context import CommandContext
from warren.scheduler.problems import Code, Problem
from warren.sql.alarms import incidents
from warren.sql.alarms.incidents import ListedIncident
from warren.sql.instants import LATEST_MS, iso

#: The most characters of a note.
LONGEST_NOTE = 200


class IncidentCommands:
    """Reads and acknowledges incidents on behalf of one actor."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def read(self, session: Session, incident_id: int) -> ListedIncident:
        """Return an incident.

        Raises:
            Problem: there is none, or the actor may not see it.

        """
        listed = incidents.find(session, incident_id)
        if listed is None or not self._context.actor.knows_job(listed.app_id, listed.job_id):
            raise Problem(Code.NO_INCIDENT, id=incident_id)
        return listed

    def acknowledge(self, incident_id: int, *, note: str = "", until_ms: int | None = None) -> None:
        """Record that the actor acknowledges an open incident; it stays silent until an instant.

        `until_ms` None = until it closes. Acknowledging it again replaces note and end.

        Raises:
            Problem: there is no such incident, it is closed, or note or end are invalid.

        """
        if not is_line(note, LONGEST_NOTE):
            raise Problem(Code.INCIDENT_NOTE, "note", most=LONGEST_NOTE, got=note[:100])

        def unit(session: Session) -> None:
            now_ms = self._context.now_ms()
            if until_ms is not None and not now_ms < until_ms < LATEST_MS:
                raise Problem(Code.INCIDENT_END, "until", got=iso(until_ms) or until_ms)
            incident = self.read(session, incident_id)
            who = self._context.actor.who
            if not incidents.acknowledge(
                session, incident_id, by=who, note=note, until_ms=until_ms, now_ms=now_ms
            ):
                raise Problem(Code.INCIDENT_CLOSED, id=incident_id)
            after = {"rule": incident.rule, "note": note, "until": iso(until_ms) or ""}
            self._context.note(
                session,
                Action.INCIDENT_ACK,
                f"{incident.app}/{incident.job or incident.job_id}",
                incident_id,
                now_ms,
                after={name: value for name, value in after.items() if value},
            )

        self._context.write(Right.OPERATE, unit)
