"""Health, and Prometheus metrics read at each scrape, for programs. Neither needs a sign-in."""

import hmac
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flask import Response, abort, jsonify, request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from warren.admin_web.language.labels import HEALTH_ISSUE
from warren.admin_web.services import ConsoleServices
from warren.admin_web.url_routes import route
from warren.scheduler.actor import Right
from warren.scheduler.membership.self_health import SelfIssue
from warren.scheduler.views.process_view import (
    ExecutorView,
    NodeView,
    SchedulersView,
    executor_views,
    node_view,
    read_schedulers,
    schedulers_view,
)
from warren.sql import metrics
from warren.sql.alarms import alarm_listing
from warren.sql.alarms import incidents as incidents_table
from warren.sql.board import listing as board
from warren.sql.board.job_states import Trouble
from warren.sql.errors import DatabaseUnavailable
from warren.sql.listings import dashboard
from warren.sql.metrics import ABOVE, DURATION_BOUNDS_MS, LATENESS_BOUNDS_MS, SUM, AppCount, Counted
from warren.sql.registry import pauses, presence, uptimes
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import ProcessState
from warren.sql.run_status import FINAL
from warren.sql.runs import due_runs
from warren.sql.runs.queries import in_flight


class MetricsCollector(Collector):
    """The state of the cluster, and what its schedulers have counted; the names are stable."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing, so that registering the collector does not read the metrics."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        yield from self._state()
        yield from of_runs(self._services)
        yield from of_jobs(self._services)

    def _state(self) -> Iterator[GaugeMetricFamily]:
        read, now_ms = self._services.database.read, self._services.now_ms()
        rows = read(lambda session: dashboard.executors(session, None))
        nodes = read(lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER))
        schedulers = [node_view(row, now_ms) for row in nodes]
        away = schedulers_view(nodes, now_ms).unreachable
        executors = executor_views(rows, {}, now_ms, unreachable=away)
        yield _by_state("warren_executors", "Executors by state.", executors)
        yield _by_ailment(
            "warren_executors_ailing",
            "Online executors that have a problem.",
            executors,
            HEALTH_ISSUE,
        )
        if self._services.stored_logs is not None:
            unstored = sum(one.unstored_logs for one in executors if one.is_online)
            words = "Finished logs that wait at online executors to be stored."
            yield _gauge("warren_unstored_logs", words, unstored)
        yield _by_state("warren_schedulers", "Schedulers by state.", schedulers)
        yield _by_ailment(
            "warren_schedulers_ailing",
            "Online schedulers that report a problem of their own.",
            schedulers,
            SelfIssue,
        )
        jobs, enabled = read(lambda session: dashboard.job_counts(session, None))
        yield _gauge("warren_jobs", "Jobs.", jobs)
        yield _gauge("warren_jobs_enabled", "Jobs whose schedule fires.", enabled)
        flying = read(in_flight)
        yield _gauge(
            "warren_runs_in_flight",
            "Runs that an executor holds, or may hold.",
            sum(flying.values()),
        )
        lost = read(lambda session: alarm_listing.count_undelivered(session, None, now_ms))
        yield _gauge(
            "warren_alarms_undelivered",
            "Alarms that reached nobody: failed, waiting for a minute, or given up; up to 1,000.",
            lost,
        )
        paused = read(lambda session: pauses.in_force(session, now_ms))
        yield _gauge(
            "warren_dispatch_paused",
            "1 while dispatch is paused.",
            int(any(pause.app is None for pause in paused)),
        )
        yield _by_app("warren_app_paused", "1 while an app is paused.", paused)
        yield _gauge(
            "warren_broker_up", "1 while the broker answers.", int(self._services.is_broker_up())
        )


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _by_app(name: str, words: str, paused: Iterable[ShownPause]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["app"])
    for pause in paused:
        if pause.app:
            family.add_metric([pause.app], 1)
    return family


def _by_state(
    name: str, words: str, processes: Iterable[ExecutorView | NodeView]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["state"])
    counts = Counter(process.state for process in processes)
    for known in (ProcessState.ALIVE, ProcessState.DRAINING, ProcessState.SILENT):
        family.add_metric([known], counts.get(known, 0))
    return family


def _by_ailment(
    name: str,
    words: str,
    processes: Iterable[ExecutorView | NodeView],
    ailments: Iterable[str],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["ailment"])
    counts = Counter(
        ailment for process in processes if process.is_online for ailment in process.ailments
    )
    for known in ailments:
        family.add_metric([known], counts.get(known, 0))
    return family


#: The numbers of one app by label.
_Numbers = Mapping[str, int]


def of_runs(services: ConsoleServices) -> Iterator[Metric]:
    """Yield what schedulers have counted, what waits, and when one of them could send."""
    read, now_ms = services.database.read, services.now_ms()
    stored = read(metrics.of_apps)
    apps = read(metrics.app_names)
    waiting = read(lambda session: due_runs.waiting_by_app(session, now_ms=now_ms))
    able_at = read(uptimes.newest)
    yield _runs(apps, _runs_by_app(stored, Counted.RUNS))
    yield _histogram(
        "warren_run_duration_seconds",
        "How long runs took, from the start of their process to its end.",
        DURATION_BOUNDS_MS,
        _runs_by_app(stored, Counted.DURATION),
    )
    yield _histogram(
        "warren_run_lateness_seconds",
        "How long after their due time runs started, waiting for executors included.",
        LATENESS_BOUNDS_MS,
        _runs_by_app(stored, Counted.LATENESS),
    )
    due = GaugeMetricFamily(
        "warren_runs_waiting", "Runs that are due and not sent to an executor.", labels=["app"]
    )
    skips = CounterMetricFamily(
        "warren_ticks_skipped", "Due times that were skipped.", labels=["app"]
    )
    skipped = _runs_by_app(stored, Counted.SKIPS)
    for app in apps:
        due.add_metric([app], waiting.get(app, 0))
        skips.add_metric([app], skipped.get(app, {}).get("", 0))
    yield due
    yield skips
    yield _troubles(apps, read(board.counts_by_app))
    yield GaugeMetricFamily(
        "warren_dispatch_able_timestamp_seconds",
        "When a scheduler last recorded that it can send runs.",
        value=able_at / 1000,
    )


def _troubles(apps: Iterable[str], by_app: Mapping[str, Mapping[Trouble, int]]) -> Metric:
    family = GaugeMetricFamily(
        "warren_jobs_in_trouble", "Jobs in trouble, by what is wrong.", labels=["app", "trouble"]
    )
    for app in apps:
        for trouble in Trouble:
            if trouble is not Trouble.NONE:
                number = by_app.get(app, {}).get(trouble, 0)
                family.add_metric([app, trouble.name.lower()], number)
    return family


def of_jobs(services: ConsoleServices) -> Iterator[Metric]:
    """Yield the metrics of single jobs, up to the limit."""
    successes = GaugeMetricFamily(
        "warren_job_last_success_timestamp_seconds",
        "When a run of the job last succeeded.",
        labels=["app", "job"],
    )
    incidents = GaugeMetricFamily(
        "warren_job_incidents", "Open incidents of the job.", labels=["app", "job", "rule"]
    )
    if limit := services.metrics_jobs:
        read = services.database.read
        chosen = read(lambda session: metrics.chosen_jobs(session, limit))
        for row in read(lambda session: metrics.last_successes(session, chosen)):
            successes.add_metric([row.app, row.job], row.succeeded_at / 1000)
        for item in read(lambda session: incidents_table.open_counts(session, chosen)):
            incidents.add_metric([item.app, item.job, item.rule], item.number)
    yield successes
    yield incidents


def _runs(apps: Iterable[str], by_app: Mapping[str, _Numbers]) -> CounterMetricFamily:
    """Return the counter of runs; from 0, so that Prometheus sees the first of each status."""
    family = CounterMetricFamily("warren_runs", "Ended runs by status.", labels=["app", "status"])
    for app in apps:
        for status in sorted(FINAL):
            family.add_metric([app, status], by_app.get(app, {}).get(status, 0))
    return family


def _runs_by_app(stored: Iterable[AppCount], name: Counted) -> Mapping[str, _Numbers]:
    numbers: dict[str, dict[str, int]] = defaultdict(dict)
    for row in stored:
        if row.name == name:
            numbers[row.app][row.label] = row.number
    return numbers


def _histogram(
    name: str, words: str, bounds_ms: Sequence[int], by_app: Mapping[str, _Numbers]
) -> HistogramMetricFamily:
    """Return a histogram; buckets that an earlier version counted in are kept."""
    family = HistogramMetricFamily(name, words, labels=["app"])
    for app, numbers in sorted(by_app.items()):
        bounds = {*bounds_ms, *(int(label) for label in numbers if label not in (ABOVE, SUM))}
        total, buckets = 0, []
        for bound in sorted(bounds):
            total += numbers.get(str(bound), 0)
            buckets.append((str(bound / 1000), total))
        buckets.append(("+Inf", total + numbers.get(ABOVE, 0)))
        family.add_metric([app], buckets, sum_value=numbers.get(SUM, 0) / 1000)
    return family


class HealthPages:
    """Health and metrics; without names, addresses or the version."""

    name = "health"

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._metrics = MetricsCollector(services)

    @route("/healthz", Right.ANYONE)
    def healthz(self) -> tuple[Response, int]:
        """Return 200 if database, broker and a scheduler are available, else 503.

        `ailments` are the names of schedulers' problems, of which one alone is no reason for 503.
        """
        state = {"database": True, "broker": self._services.is_broker_up(), "schedulers": True}
        ailments: list[str] = []
        try:
            schedulers = self._schedulers()
            state["schedulers"] = schedulers.are_online
            state["broker"] = state["broker"] and not schedulers.is_stalled
            ailments = sorted(schedulers.ailments)
        except DatabaseUnavailable:
            state["database"] = state["schedulers"] = False
        is_well = all(state.values())
        answer = {"status": "ok" if is_well else "failing", **state, "ailments": ailments}
        return jsonify(answer), 200 if is_well else 503

    @route("/metrics", Right.ANYONE)
    def metrics(self) -> Response:
        """Return metrics in Prometheus' text format; requires the token."""
        token = self._services.metrics_token
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token or not hmac.compare_digest(given.encode(), token.encode()):
            abort(403)
        return Response(self._metrics.text(), content_type=self._metrics.content_type)

    def _schedulers(self) -> SchedulersView:
        now_ms = self._services.now_ms()
        return self._services.database.read(lambda session: read_schedulers(session, now_ms))
