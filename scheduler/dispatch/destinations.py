"""Where an app's runs may go now: which executors are online, healthy, and have room."""

from warren.scheduler.dispatch.claim import ClaimFacts
from warren.scheduler.dispatch.jobs_aside import Place
from warren.scheduler.dispatch.workload import Workload
from warren.scheduler.membership.app_settings import AppSettings
from warren.scheduler.membership.roster import Roster
from warren.sql.job_choices import DEFAULT_ROUTE


class Destinations:
    """The executors of all apps, as the dispatcher sees them; used by its thread only."""

    def __init__(self, roster: Roster, settings: AppSettings, workload: Workload) -> None:
        self._roster = roster
        self._settings = settings
        self._workload = workload

    def live(self, app: str) -> dict[str, str]:
        """Return the boot id by address of an app's executors that take triggers."""
        return self._roster.routable(app)

    def room(self, app_id: int, live: dict[str, str]) -> int:
        """Return how many more runs these addresses take in total."""
        return self._workload.room(app_id, live)

    def room_at(self, place: Place) -> int:
        """Return how many more runs one address takes."""
        app_id, address = place
        return self._workload.room(app_id, [address])

    def absent_seconds(self, app: str) -> float:
        """Return how long no executor of an app has taken triggers."""
        return self._roster.absent_seconds(app)

    def facts(self, app_id: int, app: str, live: dict[str, str], now_ms: int) -> ClaimFacts:
        """Return the facts that a claim decides on."""
        listed, route = self._settings(app_id)
        return ClaimFacts(
            app_id=app_id,
            app=app,
            now_ms=now_ms,
            live=live,
            addresses=tuple(one for one in listed if one in live) if listed else tuple(live),
            listed=listed,
            away=tuple(one for one in listed if one not in live),
            in_flight=self._workload.in_flight(app_id, live),
            abilities=self._roster.abilities(app),
            route=route or DEFAULT_ROUTE,
            ailing=self._roster.ailing(app),
        )
