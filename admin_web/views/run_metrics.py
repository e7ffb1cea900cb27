"""Metrics of runs by app, and of single jobs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from warren.admin_web.console_services import ConsoleServices
from warren.sql.alarms import incidents as incidents_table
from warren.sql.metrics import counts, job_successes
from warren.sql.metrics.counts import (
    ABOVE,
    DURATION_BOUNDS_MS,
    LATENESS_BOUNDS_MS,
    SUM,
    AppCount,
    Counted,
)
from warren.sql.registry import uptimes
from warren.sql.run_status import FINAL
from warren.sql.runs import due_runs

#: The numbers of one app by label.
_Numbers = Mapping[str, int]


def of_runs(services: ConsoleServices) -> Iterator[Metric]:
    """Yield what schedulers have counted, what waits, and when one of them could send."""
    read, now_ms = services.database.read, services.now_ms()
    stored = read(counts.of_apps)
    apps = read(counts.app_names)
    waiting = read(lambda session: due_runs.waiting_by_app(session, now_ms=now_ms))
    able_at = read(uptimes.newest)
    yield _runs(apps, _by_app(stored, Counted.RUNS))
    yield _histogram(
        "warren_run_duration_seconds",
        "How long runs took, from the start of their process to its end.",
        DURATION_BOUNDS_MS,
        _by_app(stored, Counted.DURATION),
    )
    yield _histogram(
        "warren_run_lateness_seconds",
        "How long after their due time runs started, waiting for executors included.",
        LATENESS_BOUNDS_MS,
        _by_app(stored, Counted.LATENESS),
    )
    due = GaugeMetricFamily(
        "warren_runs_waiting", "Runs that are due and not sent to an executor.", labels=["app"]
    )
    skips = CounterMetricFamily(
        "warren_ticks_skipped", "Due times that were skipped.", labels=["app"]
    )
    skipped = _by_app(stored, Counted.SKIPS)
    for app in apps:
        due.add_metric([app], waiting.get(app, 0))
        skips.add_metric([app], skipped.get(app, {}).get("", 0))
    yield due
    yield skips
    yield GaugeMetricFamily(
        "warren_dispatch_able_timestamp_seconds",
        "When a scheduler last recorded that it can send runs.",
        value=able_at / 1000,
    )


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
        chosen = read(lambda session: job_successes.chosen_jobs(session, limit))
        for row in read(lambda session: job_successes.of_jobs(session, chosen)):
            successes.add_metric([row.app, row.job], row.succeeded_at / 1000)
        for one in read(lambda session: incidents_table.open_counts(session, chosen)):
            incidents.add_metric([one.app, one.job, one.rule], one.number)
    yield successes
    yield incidents


def _runs(apps: Iterable[str], by_app: Mapping[str, _Numbers]) -> CounterMetricFamily:
    """Return the counter of runs; from 0, so that Prometheus sees the first of each status."""
    family = CounterMetricFamily("warren_runs", "Ended runs by status.", labels=["app", "status"])
    for app in apps:
        for status in sorted(FINAL):
            family.add_metric([app, status], by_app.get(app, {}).get(status, 0))
    return family


def _by_app(stored: Iterable[AppCount], name: Counted) -> Mapping[str, _Numbers]:
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
            buckets.append((_seconds(bound), total))
        buckets.append(("+Inf", total + numbers.get(ABOVE, 0)))
        family.add_metric([app], buckets, sum_value=numbers.get(SUM, 0) / 1000)
    return family


def _seconds(bound_ms: int) -> str:
    return str(bound_ms / 1000)
