"""Prometheus metrics, read at each scrape."""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from warren.admin_web.console_services import ConsoleServices
from warren.admin_web.language.labels import AILMENT
from warren.admin_web.views import run_metrics
from warren.scheduler.views.process_view import ExecutorView, NodeView, executor_views, node_view
from warren.sql.alarms import alarm_listing
from warren.sql.listings import dashboard
from warren.sql.registry import pauses, presence
from warren.sql.registry.pauses import ShownPause
from warren.sql.registry.presence import ProcessState
from warren.sql.runs.queries import in_flight


class MetricsCollector(Collector):
    """The state of the cluster, and what its schedulers have counted; the names are stable."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing, so that registering reads no metrics."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Read all metrics."""
        yield from self._state()
        yield from run_metrics.of_runs(self._services)
        yield from run_metrics.of_jobs(self._services)

    def _state(self) -> Iterator[GaugeMetricFamily]:
        read, now_ms = self._services.database.read, self._services.now_ms()
        rows = read(lambda session: dashboard.executors(session, None))
        executors = executor_views(rows, {}, now_ms)
        nodes = read(lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER))
        schedulers = [node_view(row, now_ms) for row in nodes]
        yield _by_state("warren_executors", "Executors by state.", executors)
        yield _by_ailment(executors)
        yield _by_state("warren_schedulers", "Schedulers by state.", schedulers)
        jobs, enabled = read(lambda session: dashboard.job_counts(session, None))
        yield _gauge("warren_jobs", "Jobs.", jobs)
        yield _gauge("warren_jobs_enabled", "Jobs whose schedule fires.", enabled)
        flying = read(in_flight)
        yield _gauge(
            "warren_runs_in_flight",
            "Runs that an executor holds, or may hold.",
            sum(row.runs for row in flying),
        )
        lost = read(lambda session: alarm_listing.count_undelivered(session, None, now_ms))
        yield _gauge(
            "warren_alarms_undelivered",
            "Alarms that reached nobody: failed, waiting for a minute, or given up; up to 1,000.",
            lost,
        )
        held = read(lambda session: pauses.in_force(session, now_ms))
        yield _gauge(
            "warren_dispatch_paused",
            "1 while dispatch is paused.",
            int(any(one.app is None for one in held)),
        )
        yield _by_app("warren_app_paused", "1 while an app is paused.", held)
        yield _gauge(
            "warren_broker_up", "1 while the broker answers.", int(self._services.is_broker_up())
        )


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _by_app(name: str, words: str, held: Iterable[ShownPause]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["app"])
    for one in held:
        if one.app:
            family.add_metric([one.app], 1)
    return family


def _by_state(
    name: str, words: str, processes: Iterable[ExecutorView | NodeView]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["state"])
    counts = Counter(process.state for process in processes)
    for known in (ProcessState.ALIVE, ProcessState.DRAINING, ProcessState.SILENT):
        family.add_metric([known], counts.get(known, 0))
    return family


def _by_ailment(executors: Iterable[ExecutorView]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "warren_executors_ailing",
        "Online executors that report a problem of their own.",
        labels=["ailment"],
    )
    counts = Counter(name for one in executors if one.is_online for name in one.ailments)
    for known in AILMENT:
        family.add_metric([known], counts.get(known, 0))
    return family
