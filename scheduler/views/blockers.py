"""Why an executor gets no runs, or those of a job are not sent: from the registry and the pauses.

It reads the current state from the database and asks no executor. An executor whose messages are
rejected does not appear: it never got into the registry.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from sqlalchemy.orm import Session

from warren.broker.messages import HealthIssue
from warren.broker.reasons import Reason, Why, Words
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.membership.catalogues import Need
from warren.scheduler.routing import routes
from warren.scheduler.routing.routes import Route, RouteRequest
from warren.scheduler.views.process_view import (
    ExecutorView,
    SchedulersView,
    executor_views,
    read_catalogues,
    read_schedulers,
)
from warren.sql.instants import iso
from warren.sql.listings import app_listing, dashboard
from warren.sql.registry import apps, pauses
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import ProcessState

#: The most started jobs of an app whose routes are checked.
MAX_JOBS = 500
#: Routes that always choose the same one of the same executors; FAILOVER does while that answers.
_FIXED = frozenset({Route.FIRST, Route.LAST, Route.CONSISTENT_HASH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """What dispatch depends on at one instant, as the database has it.

    `executors` are those of the requested apps; `started_apps` names the apps among them that
    have a started job.
    """

    has_scheduler: bool
    pauses: Sequence[ShownPause]
    executors: Sequence[ExecutorView]
    started_apps: Collection[str]
    format_time: Callable[[int], str | None]
    is_stalled: bool = False

    def of_executor(
        self, executor_view: ExecutorView, started: Mapping[int, str] | None = None
    ) -> list[Reason]:
        """Return why an executor gets no runs, most general reason first; none = it may get some.

        `started` are the routes of the started jobs of its app by id, if the caller has read them.
        """
        reasons = [*self.of_cluster(), *self.of_executor_itself(executor_view, started)]
        if (
            executor_view.is_online
            and executor_view.slots
            and executor_view.running >= executor_view.slots
        ):
            reasons.append(Why.SLOTS_TAKEN(slots=executor_view.slots))
        return reasons

    def of_executor_itself(
        self, executor_view: ExecutorView, started: Mapping[int, str] | None = None
    ) -> list[Reason]:
        """Return the reasons that concern this executor alone, without taken slots."""
        reasons = self._of_app(executor_view.app)
        if state := _state(executor_view, self.format_time):
            return [*reasons, state]
        if executor_view.listed is False:
            reasons.append(Why.NOT_LISTED(app=executor_view.app))
        if executor_view.app not in self.started_apps:
            reasons.append(Why.NO_STARTED_JOB(app=executor_view.app))
        reasons += self._of_health(executor_view)
        if not reasons and started is not None:
            reasons += self._of_routes(executor_view, started)
        return reasons

    def of_job(self, app: str, need: Need | None = None) -> list[Reason]:
        """Return why runs of an app's jobs are not sent, or wait where they were sent.

        `need` is what a job's runs need of their executor; None = any executor will do.
        """
        reasons, online = [*self.of_cluster(), *self._of_app(app)], self._routable(app)
        live = [executor for executor in online if need is None or _may_have(executor, need)]
        if not online:
            reasons.append(self._of_absence(app))
        elif not live and need is not None:
            reasons.append(_of_lack(app, need))
        elif all(map(_stopping, live)):
            reasons += [
                Why.AILING(address=executor.address, ailments=_health_issues(executor))
                for executor in live[:10]
            ]
        elif all(executor.slots and executor.running >= executor.slots for executor in live):
            slots = sum(executor.slots for executor in live)
            reasons.append(Why.APP_SLOTS_TAKEN(app=app, slots=slots))
        return reasons

    def of_spec(self, spec: JobSpec) -> list[Reason]:
        """Return why a job gets no runs at present; a flow needs no executor."""
        if spec.flow is not None:
            return [*self.of_cluster(), *self._of_app(spec.app)]
        return self.of_job(spec.app, need_of(spec))

    def of_cluster(self) -> list[Reason]:
        """Return why nothing at all is sent."""
        reasons = [] if self.has_scheduler else [Why.NO_SCHEDULER_ONLINE()]
        if self.is_stalled:
            reasons.append(Why.NOTHING_CONFIRMED())
        return reasons + [self._of_pause(pause) for pause in self.pauses if pause.app is None]

    def _of_app(self, app: str) -> list[Reason]:
        return [self._of_pause(pause) for pause in self.pauses if pause.app == app]

    def _of_pause(self, shown_pause: ShownPause) -> Reason:
        until = self.format_time(shown_pause.until_at) if shown_pause.until_at else None
        if shown_pause.app is None:
            reason = Why.PAUSED_UNTIL(until=until) if until else Why.PAUSED()
        else:
            reason = (
                Why.APP_PAUSED_UNTIL(app=shown_pause.app, until=until)
                if until
                else Why.APP_PAUSED(app=shown_pause.app)
            )
        return Why.NOTED(words=reason, notes=shown_pause.reason) if shown_pause.reason else reason

    def _of_health(self, executor_view: ExecutorView) -> list[Reason]:
        others = [
            two for two in self._routable(executor_view.app) if two.address != executor_view.address
        ]
        if executor_view.is_hindered and any(not two.is_hindered for two in others):
            return [Why.PASSED_OVER(ailments=_health_issues(executor_view))]
        return [issue.why() for issue in _stopping(executor_view)]

    def _of_routes(self, executor_view: ExecutorView, started: Mapping[int, str]) -> list[Reason]:
        """Return a reason if it is certain that the routes of all started jobs choose others."""
        live = self._routable(executor_view.app)
        addresses = tuple(two.address for two in live if not two.is_hindered) or tuple(
            two.address for two in live
        )
        if not started or len(started) > MAX_JOBS or executor_view.address not in addresses:
            return []
        chosen = {_fixed_choice(*job, addresses) for job in started.items()}
        if None in chosen or executor_view.address in chosen:
            return []
        return [Why.ROUTED_ELSEWHERE(addresses=", ".join(sorted(map(str, chosen))[:10]))]

    def _of_absence(self, app: str) -> Reason:
        known = [handler for handler in self.executors if handler.app == app]
        listed = [handler.address for handler in known if handler.listed]
        if any(handler.state is ProcessState.DRAINING for handler in known):
            return Why.APP_DRAINING(app=app)
        if listed:
            return Why.LISTED_OFFLINE(addresses=", ".join(listed[:10]))
        return Why.APP_OFFLINE(app=app)

    def _routable(self, app: str) -> list[ExecutorView]:
        """Return the executors that runs of an app may go to, in the order of their addresses."""
        return [
            executor
            for executor in self.executors
            if executor.app == app
            and executor.state is ProcessState.ALIVE
            and executor.listed is not False
        ]


def of_cluster(held: Sequence[ShownPause], schedulers: SchedulersView) -> list[Reason]:
    """Return why nothing at all is sent; `held` are the pauses in force."""
    return Blockers(
        has_scheduler=schedulers.are_online,
        pauses=held,
        executors=(),
        started_apps=(),
        format_time=iso,
        is_stalled=schedulers.is_stalled,
    ).of_cluster()


def read(
    session: Session,
    app_ids: Collection[int] | None,
    *,
    now_ms: int,
    format_time: Callable[[int], str | None] = iso,
) -> Blockers:
    """Return what dispatch to some apps depends on, None = to all apps.

    `format_time` writes the instants in the reasons.
    """
    schedulers = read_schedulers(session, now_ms)
    rows = dashboard.executors(session, app_ids)
    return Blockers(
        has_scheduler=schedulers.are_online,
        is_stalled=schedulers.is_stalled,
        pauses=pauses.in_force(session, now_ms, app_ids),
        executors=executor_views(
            rows,
            apps.listed_by_name(session, app_ids),
            now_ms,
            read_catalogues(session, rows),
            schedulers.unreachable,
        ),
        started_apps=app_listing.with_started_jobs(session, app_ids),
        format_time=format_time,
    )


def blocker_json(reasons: Iterable[Reason]) -> list[dict[str, str]]:
    """Return reasons as JSON has them: a code for programs and a sentence for people."""
    return [{"code": _code(reason), "message": str(reason)} for reason in reasons]


def _code(reason: Reason) -> str:
    """Return a reason's code; if a note was added to it, the code of what the note is about."""
    inner = reason.facts.get("words") if reason.code is Why.NOTED else None
    return inner.code.name if isinstance(inner, Reason) else reason.code.name


def need_of(spec: JobSpec) -> Need:
    """Return what a job's runs need of their executor."""
    return Need(spec.script_language or spec.handler, is_script=bool(spec.script_language))


def _may_have(executor_view: ExecutorView, need: Need) -> bool:
    """Return whether an executor may have what a run needs; one without a known catalogue may."""
    if executor_view.catalogue is None:
        return True
    if need.is_script:
        return need.name in executor_view.languages
    return executor_view.catalogue.has_more or need.name in executor_view.handlers


def _of_lack(app: str, need: Need) -> Reason:
    if need.is_script:
        return Why.APP_LACKS_LANGUAGE(app=app, language=need.name)
    return Why.APP_LACKS_HANDLER(app=app, name=need.name)


def _state(executor_view: ExecutorView, format_time: Callable[[int], str | None]) -> Reason | None:
    if executor_view.state is ProcessState.ABSENT:
        return Why.NEVER_CONNECTED()
    if executor_view.state is ProcessState.SILENT:
        return Why.NO_HEARTBEAT(since=format_time(executor_view.beat_at) or "")
    if executor_view.state is not ProcessState.DRAINING:
        return None
    is_refused = HealthIssue.ADDRESS in _stopping(executor_view)
    return Why.ADDRESS_NOT_ALLOWED() if is_refused else Why.TAKES_NO_MORE()


def _stopping(executor_view: ExecutorView) -> list[HealthIssue]:
    known = map(HealthIssue.named, executor_view.ailments)
    return [issue for issue in known if issue and issue.starts_nothing]


def _health_issues(executor_view: ExecutorView) -> tuple[Words, ...]:
    return tuple(
        known.why() if (known := HealthIssue.named(name)) else name
        for name in executor_view.ailments
    )


def _fixed_choice(job_id: int, route: str, addresses: tuple[str, ...]) -> str | None:
    """Return the executor that a job's runs go to, None when it may be one or another."""
    if route == Route.FAILOVER:
        return addresses[0]
    if route not in _FIXED:
        return None
    request = RouteRequest(job_id=job_id, addresses=addresses)
    return routes.choose(route, request, Random(0)).address  # noqa: S311 - nothing is random
