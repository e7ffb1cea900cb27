"""Stops flows that are to be killed or have timed out, and repairs flows that were left behind.

A request to stop a flow only marks its run. The nodes are ended here, each in a transaction of its
own, so that the locks keep their order: runs of nodes, then the flow's run, then its nodes.
"""

from collections.abc import Sequence
from dataclasses import replace

import structlog
from sqlalchemy.orm import Session

from warren.broker.reasons import Why
from warren.scheduler.completion.completion import Completion, RunEnder, Tally
from warren.scheduler.completion.end import cancelled
from warren.scheduler.completion.flow_judgement import NodeEnd, ends_of_ticks
from warren.scheduler.flows.judge import Outcome
from warren.scheduler.node_context import NodeContext
from warren.scheduler.problems import explanation
from warren.sql.jobs import job_rows
from warren.sql.run_status import RunStatus
from warren.sql.runs import flow_nodes, ticks, transitions
from warren.sql.runs.flow_nodes import NodeState
from warren.sql.runs.ticks import Tick

#: Time between two looks, and between two looks for what was left behind.
POLL_SECONDS = 0.5
HEALING_SECONDS = 10.0
#: A node that began this long ago may have been left behind.
LEFT_BEHIND_MS = 5_000

log = structlog.get_logger()


class FlowKeeper:
    """Ends nodes and flows that are not ended by the end of a run."""

    def __init__(self, context: NodeContext, ender: RunEnder, completion: Completion) -> None:
        self._context = context
        self._ender = ender
        self._completion = completion
        self._healed_at = float("-inf")

    def run_round(self, now_ms: int) -> float:
        """Stop and repair flows; return the seconds until the next look."""
        flows = self._context.database.read(
            lambda session: flow_nodes.to_stop(session, now_ms=now_ms)
        )
        for run_id, is_late in flows.items():
            self._stop(run_id, is_late=is_late)
        now = self._context.monotonic()
        if now - self._healed_at >= HEALING_SECONDS:
            self._healed_at = now
            self._heal(now_ms)
        return POLL_SECONDS

    def _stop(self, flow_run_id: int, *, is_late: bool) -> None:
        """Mark a flow that timed out, stop its nodes, and end it if none is still running."""
        if is_late:
            self._context.database.write(lambda session: _mark_late(session, flow_run_id))
        now_ms = self._context.now_ms()
        runs = self._context.database.read(
            lambda session: flow_nodes.open_runs(session, flow_run_id)
        )
        planned = [run_id for run_id, status in runs.items() if status == RunStatus.PLANNED]
        self._ender.end([cancelled(run_id, Why.FLOW_STOPPED(), now_ms) for run_id in planned])
        sent = sorted(runs.keys() - set(planned))
        if sent:
            self._context.database.write(
                lambda session: transitions.request_kills(session, sent, now_ms=now_ms)
            )
        self._advance([flow_run_id])

    def _heal(self, now_ms: int) -> None:
        """End nodes and flows that ended without completion."""
        left, stalled, orphaned = self._context.database.read(
            lambda session: (
                flow_nodes.left_behind(session, before_ms=now_ms - LEFT_BEHIND_MS),
                flow_nodes.stalled(session, before_ms=now_ms - LEFT_BEHIND_MS),
                flow_nodes.orphaned(session),
            )
        )
        if left:
            log.warning("flow_nodes_left_behind", nodes=[state.id for state in left][:20])
            self._advance({state.flow_run_id for state in left}, left)
        if stalled:
            log.warning("flows_stalled", runs=stalled[:20])
            self._advance(stalled)
        if orphaned:
            self._context.database.write(
                lambda session: flow_nodes.bypass_orphaned(
                    session, orphaned, explanation(Why.FLOW_STOPPED()), now_ms=now_ms
                )
            )

    def _advance(
        self, flow_run_ids: Sequence[int] | set[int], left: Sequence[NodeState] = ()
    ) -> None:
        def unit(session: Session) -> Tally:
            ends = _ends_of(session, left) if left else {}
            work = self._completion.flows.advance(session, sorted(flow_run_ids), ends)
            return self._completion.carry_on(session, work)

        tally = self._context.write_runs(unit, has_planned=lambda tally: tally.planned)
        self._context.metrics.add(tally.ended)


def _mark_late(session: Session, run_id: int) -> None:
    """Mark a flow as to be stopped, as of its timeout."""
    for run in transitions.lock(session, [run_id]):
        job = job_rows.for_runs(session, [run.job_id]).get(run.job_id)
        if job is not None and run.started_at is not None:
            deadline_ms = run.started_at + job.timeout * 1_000
            transitions.request_kill(session, run_id, now_ms=deadline_ms)


def _ends_of(session: Session, left: Sequence[NodeState]) -> dict[int, NodeEnd]:
    """Return how nodes ended whose runs have all ended; FAILED if the runs are gone.

    No alarm was raised for those failures.
    """
    of_nodes = {
        node_id: Tick(*tick) for node_id, tick in flow_nodes.ticks_of(session, left).items()
    }
    ends = ends_of_ticks(session, of_nodes.values())
    known = ticks.own_attempts(session, of_nodes.values())
    gone = NodeEnd(Outcome.FAILED, explanation(Why.NODE_RUNS_GONE()))
    ends |= {node_id: gone for node_id, tick in of_nodes.items() if tick not in known}
    return {node_id: replace(end, is_reported=False) for node_id, end in ends.items()}
