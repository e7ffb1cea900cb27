"""How a due time of a job stands, by its runs: a pure decision.

Runs of one due time are attempts, re-runs and backfills of its shards; the newest that decides
something counts. What was killed, refused or skipped decides nothing. A re-run does not count
before it has ended, so what failed has failed until then.

Nodes of flows that have the same job share its due times. Each is judged by itself; the due time
has failed if one of them has.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from warren.sql.board.due_runs import DueRun
from warren.sql.run_status import FAILURES, OPEN, RunStatus
from warren.sql.runs.reruns import NodeKey

#: Of several nodes or shards, the one that counts.
_RANK = {RunStatus.SUCCEEDED: 1} | dict.fromkeys(FAILURES, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTime:
    """A due time that is over: its status, that of its run `run_id`, and how long it took.

    One that was killed, refused or skipped has decided nothing. `error` is the key of its error.
    """

    at: int
    status: RunStatus
    run_id: int
    took_ms: int = 0
    error: str = ""

    @property
    def is_decided(self) -> bool:
        """Whether it succeeded or failed."""
        return self.status in _RANK

    @property
    def has_failed(self) -> bool:
        """Whether it failed."""
        return self.status in FAILURES

    @property
    def has_succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.status is RunStatus.SUCCEEDED


def judge(runs: Iterable[DueRun], nodes: Mapping[int, NodeKey]) -> DueTime | None:
    """Return how a due time stands; None while it is not over, or if all was cancelled.

    Args:
        runs: all its runs, at least one.
        nodes: the nodes of flows whose runs these are or repeat, by run id.

    """
    by_node: dict[NodeKey | None, list[DueRun]] = defaultdict(list)
    for run in runs:
        if run.status != RunStatus.CANCELLED:
            by_node[nodes.get(run.id)].append(run)
    ends = [end for those in by_node.values() if (end := _end(those)) is not None]
    if not ends:
        return None
    return min(ends, key=lambda end: (-_RANK.get(end.status, 0), end.run_id))


def _end(runs: Sequence[DueRun]) -> DueTime | None:
    """Return how the runs of one node, or of none, stand; None while a shard is open."""
    by_shard: dict[int, list[DueRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.origin_id, run.attempt)):
        by_shard[run.shard_index].append(run)
    deciding = [_deciding(those) for _, those in sorted(by_shard.items())]
    known = [run for run in deciding if run is not None]
    if len(known) < len(deciding):
        return None
    counted = [run for run in known if RunStatus(run.status) in _RANK] or known
    worst = max(counted, key=lambda run: _RANK.get(RunStatus(run.status), 0))
    return DueTime(
        at=worst.scheduled_at,
        status=RunStatus(worst.status),
        run_id=worst.id,
        took_ms=_took_ms(counted),
    )


def _deciding(runs: Sequence[DueRun]) -> DueRun | None:
    """Return the run that decides about a shard; None while that is open.

    An attempt that will be repeated decides nothing, and neither does a whole re-run meanwhile.
    """
    final: list[DueRun] = []
    for _, attempts in groupby(runs, lambda run: run.origin_id):
        tries = list(attempts)
        if tries[-1].status not in OPEN:
            final += tries
    if not final:
        return None
    decided = [run for run in final if RunStatus(run.status) in _RANK]
    return (decided or final)[-1]


def _took_ms(runs: Sequence[DueRun]) -> int:
    """Return how long it took from the first start to the last end; 0 if that is not known."""
    starts = [run.started_at for run in runs if run.started_at is not None]
    ends = [run.finished_at for run in runs if run.finished_at is not None]
    return max(0, max(ends) - min(starts)) if starts and ends else 0
