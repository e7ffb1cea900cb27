"""Finds runs by the filter form, for the list and for actions on all matching runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warren.admin_web.forms.run_filter import RunFilterForm
from warren.admin_web.local_times import LocalTimes
from warren.admin_web.services import ConsoleServices
from warren.admin_web.visitors import visitor
from warren.sql.listings import error_groups, run_search
from warren.sql.listings.error_groups import ErrorGroups
from warren.sql.listings.newest_runs import Place
from warren.sql.listings.run_search import RunCount, RunSearch, SweepResult
from warren.sql.run_status import FAILURES

#: The most matching runs that are counted or acted on, and the most that are read for that.
MAX_RUNS, MAX_READ = 10_000, 50_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A filled form, and whether it is valid."""

    form: RunFilterForm
    is_valid: bool


class RunFinder:
    """Finds runs that the visitor may see."""

    def __init__(self, services: ConsoleServices) -> None:
        self._database = services.database
        self._now_ms = services.now_ms
        self._local_times = LocalTimes(services.cluster_zone, services.now_ms)

    def ask(self, query: Mapping[str, str]) -> Asked:
        """Fill the form from a query."""
        form, app_ids = RunFilterForm(query), visitor().app_ids
        self._database.read(lambda session: form.set_choices(session, app_ids))
        return Asked(form, form.validate())

    def search(self, asked: Asked, *, before: Place | None = None, limit: int = 1) -> RunSearch:
        """Return the search that a valid form stands for."""
        zone, now_ms = self._local_times.zone(), self._now_ms()
        return asked.form.search(zone=zone, now_ms=now_ms, before=before, limit=limit)

    def all(self, asked: Asked, *, until_ms: int | None = None) -> SweepResult:
        """Return all runs that match a valid form, up to a limit; those due before `until_ms`."""
        wanted = self.search(asked)
        if until_ms is not None:
            wanted = replace(wanted, until_ms=min(wanted.until_ms or until_ms, until_ms))
        return self._database.read(
            lambda session: run_search.sweep(session, wanted, most=MAX_RUNS, looked_at=MAX_READ)
        )

    def errors(self, asked: Asked) -> ErrorGroups:
        """Return the runs that match a valid form, up to a limit, in groups.

        Without a state, these are the failures whose due time has not succeeded since.
        """
        wanted = self.search(asked)
        if not wanted.statuses:
            wanted = replace(wanted, statuses=FAILURES, unresolved=True)
        return self._database.read(
            lambda session: error_groups.read(session, wanted, most=MAX_RUNS, looked_at=MAX_READ)
        )

    def count(self, asked: Asked) -> RunCount:
        """Return how many runs match a valid form, up to a limit."""
        wanted = self.search(asked)
        return self._database.read(
            lambda session: run_search.count(session, wanted, most=MAX_RUNS, looked_at=MAX_READ)
        )
