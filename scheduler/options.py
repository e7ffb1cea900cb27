"""The options of a scheduler, from the settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from warren.scheduler.alarms.events import AlarmPolicy
from warren.scheduler.completion.run_spans import SpanExporter
from warren.scheduler.dispatch.workload import LIMIT
from warren.scheduler.metrics.recorder import METRICS_JOBS
from warren.scheduler.routing.choice import Router
from warren.scheduler.timeouts import ClaimLimits, Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options of one scheduler.

    Attributes:
        timezone: the zone of jobs that have none of their own.
        quorum: whether run and callback queues are quorum queues.
        timeouts: how long the scheduler waits for others.
        limits: how much one claim may contain.
        address_limit: most runs in flight to one executor.
        added_routes: the installation's own routes by name, besides XXL-JOB's.
        alarms: how alarms are sent; None = only to the targets of jobs and apps.
        run_retention_days: days that final runs are kept; 0 = forever.
        spans: exports the spans of runs; None = no spans.
        metrics_jobs: how many jobs have metrics of their own.

    """

    timezone: str
    quorum: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    address_limit: int = LIMIT
    added_routes: Mapping[str, Router] = field(default_factory=dict)
    alarms: AlarmPolicy | None = None
    run_retention_days: int = 0
    spans: SpanExporter | None = None
    metrics_jobs: int = METRICS_JOBS

    @property
    def alarm_policy(self) -> AlarmPolicy:
        """How alarms are sent."""
        return self.alarms or AlarmPolicy(timezone=self.timezone)
