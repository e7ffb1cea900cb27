"""What people do with executors: the same for the command line and the console.

A wish to drain is a mark in the registry before it is a message; the schedulers carry it.
"""

from collections.abc import Callable, Collection

from sqlalchemy.orm import Session

from scheduler.trail import CLI, Action, Trail
from sql import drains
from sql.engine import Database
from sql.errors import NotFound


class FleetCommands:
    """Acts on executors for one person or program.

    Args:
        database: where they are registered.
        now_ms: the database's clock.
        who: recorded in the audit trail.
        origin: the address that it comes from, or `cli`.
        app_ids: the apps whose executors it may touch, for it there are no others; None = all.

    """

    def __init__(
        self,
        database: Database,
        now_ms: Callable[[], int],
        *,
        who: str,
        origin: str = CLI,
        app_ids: Collection[int] | None = None,
    ) -> None:
        self._database = database
        self._now_ms = now_ms
        self._app_ids = app_ids
        self._trail = Trail(who=who, origin=origin)

    def drain(self, name: str) -> bool:
        """Let an executor take nothing new, finish what runs, and end; False when it does already.

        `name` is ADDRESS, or APP/ADDRESS. It holds for the boot that has the address now: the next
        one takes runs again.

        Raises:
            NotFound: no such executor has registered.
            Conflict: executors of several apps have this address.

        """
        app, _, address = name.rpartition("/")

        def unit(session: Session) -> bool:
            row = drains.lock(session, address, app or None)
            app_id = drains.app_id(session, row.registry_key)
            if self._app_ids is not None and app_id not in self._app_ids:
                raise NotFound(f"no executor with address {address!r}")
            now_ms = self._now_ms()
            if not drains.ask(session, row, now_ms):
                return False
            told = {"app": row.registry_key, "boot": row.boot_id}
            self._trail.note(
                session, Action.EXECUTOR_DRAIN, address, object_id=row.id, now_ms=now_ms, after=told
            )
            return True

        return self._database.write(unit)
