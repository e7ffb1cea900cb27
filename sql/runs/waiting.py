"""How many runs of a job wait: for a scheduler to send them, or in an executor."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from warren.sql.models import Run
from warren.sql.run_status import OPEN, RunStatus


@dataclass(slots=True)
class Waiting:
    """The due runs of a job: those that are not sent, and those at each address.

    At each address up to `concurrency` of them are running.
    """

    concurrency: int
    planned: int = 0
    sent: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many wait."""
        most = max(1, self.concurrency)
        return self.planned + sum(max(0, runs - most) for runs in self.sent.values())

    def send(self, address: str) -> None:
        """Count a run that is sent."""
        self.sent[address] = self.sent.get(address, 0) + 1


def of_jobs(
    session: Session,
    app_id: int,
    concurrency: Mapping[int, int],
    *,
    until_ms: int,
    without_runs: Collection[int] = (),
) -> dict[int, Waiting]:
    """Return what waits of an app's jobs, which are given with their concurrency, without locks."""
    rows = session.execute(
        select(Run.job_id, Run.status, Run.address, func.count())
        .where(
            Run.status.in_(OPEN),
            Run.app_id == app_id,
            Run.due_at <= until_ms,
            Run.job_id.in_(sorted(concurrency)),
            Run.id.not_in(sorted(without_runs)),
        )
        .group_by(Run.job_id, Run.status, Run.address)
    )
    planned: dict[int, int] = defaultdict(int)
    sent: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for job_id, status, address, runs in rows:
        if status == RunStatus.PLANNED:
            planned[job_id] += runs
        else:
            sent[job_id][address or ""] += runs
    return {
        job_id: Waiting(most, planned[job_id], dict(sent[job_id]))
        for job_id, most in concurrency.items()
    }
