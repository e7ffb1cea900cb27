"""Figures for Prometheus, read when they are asked for."""

from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from admin_web.parts import Parts
from sql import cluster, dashboard, presence
from sql.liveness import state
from sql.models import Registration
from sql.run_queries import in_flight


class Figures(Collector):
    """How the cluster stands, as gauges; the names are stable."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def text(self) -> bytes:
        """Return all figures in the text format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Give nothing: the figures are read once, when they are collected."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read the figures."""
        read, now_ms = self._parts.database.read, self._parts.now_ms()
        executors = read(lambda session: dashboard.executors(session, None))
        schedulers = read(
            lambda session: presence.listing(session, presence.ADMIN, presence.SCHEDULER)
        )
        yield _by_state("warren_executors", "Executors by state.", executors, now_ms)
        yield _by_state("warren_schedulers", "Schedulers by state.", schedulers, now_ms)
        jobs, enabled = read(lambda session: dashboard.job_counts(session, None))
        yield _gauge("warren_jobs", "Jobs.", jobs)
        yield _gauge("warren_jobs_enabled", "Jobs whose schedule fires.", enabled)
        flying = read(in_flight)
        yield _gauge(
            "warren_runs_in_flight",
            "Runs that an executor holds, or may hold.",
            sum(row.runs for row in flying),
        )
        paused = read(cluster.paused_at)
        yield _gauge("warren_dispatch_paused", "1 while dispatch is paused.", int(paused > 0))
        yield _gauge(
            "warren_broker_up", "1 while the broker answers.", int(self._parts.is_broker_up())
        )


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, words, value=value)


def _by_state(
    name: str, words: str, rows: Iterable[Registration], now_ms: int
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=["state"])
    counts = Counter(state(row, now_ms) for row in rows)
    for known in ("alive", "draining", "silent"):
        family.add_metric([known], counts.get(known, 0))
    return family
