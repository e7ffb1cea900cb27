"""What an installation may choose about its schedulers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.alarms.policy import AlarmPolicy
from scheduler.completion.run_spans import SpanExporter
from scheduler.dispatch.workload import LIMIT
from scheduler.routing.choice import Router
from scheduler.timeouts import Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """The options of one scheduler.

    `timezone`: for jobs that name none.
    `quorum`: whether run and callback queues are quorum queues.
    `timeouts`: how long it waits before it judges others.
    `address_limit`: runs in flight that one executor may have.
    `added_routes`: by name, routes besides XXL-JOB's.
    `alarms`: how people are alerted; None = only those that jobs name.
    `run_retention_days`: how many days finished runs are kept; 0 = for ever.
    `spans`: where spans of runs go; None = there are none.
    """

    timezone: str
    quorum: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)
    address_limit: int = LIMIT
    added_routes: Mapping[str, Router] = field(default_factory=dict)
    alarms: AlarmPolicy | None = None
    run_retention_days: int = 0
    spans: SpanExporter | None = None

    @property
    def alarm_policy(self) -> AlarmPolicy:
        """How people are alerted to failures."""
        return self.alarms or AlarmPolicy(timezone=self.timezone)
