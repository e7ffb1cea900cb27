"""How the nodes of flows end: once all their runs are over, with the last retry of each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from warren.broker.reasons.codes import Why
from warren.scheduler.completion.end import TickEnd, tick_end
from warren.scheduler.completion.transition import Won
from warren.scheduler.flows.judge import Outcome
from warren.scheduler.flows.values import RESULT_BYTES, joined_results, kept_result
from warren.scheduler.problems import explanation
from warren.sql.explanation import Explanation
from warren.sql.run_status import RunStatus
from warren.sql.runs import queries, ticks, transitions
from warren.sql.runs.ticks import Tick, tick_of

_NOTHING = Explanation()


@dataclass(frozen=True, slots=True)
class NodeEnd:
    """What became of a node; `reason` says why it did not succeed, or why it has no result.

    `is_told`: if it failed, the end of its run has raised the alarm.
    """

    outcome: Outcome
    reason: Explanation = _NOTHING
    result: str | None = None
    is_told: bool = True


def node_ends(session: Session, ended: Sequence[Won]) -> dict[int, NodeEnd]:
    """Return the nodes that are over with these runs, which are not retried, by id."""
    alone = {won.row.id for won in ended if won.row.shard_total <= 1 and not won.row.attempt}
    ends = {
        won.row.origin_id: _node_end(won.end.status, explanation(won.end.message), won.end.result)
        for won in ended
        if won.row.id in alone
    }
    others = {tick_of(won.row) for won in ended if won.row.id not in alone}
    if others:
        sharded = {tick_of(won.row) for won in ended if won.row.shard_total > 1}
        if sharded:
            transitions.lock(session, ticks.first_run_ids(session, sharded, own=True))
        ends |= ends_of_ticks(session, others)
    return ends


def ends_of_ticks(session: Session, of_nodes: Iterable[Tick]) -> dict[int, NodeEnd]:
    """Return the nodes among these of which no run is open, by id, by what is stored."""
    ends = {}
    for tick, runs in ticks.own_attempts(session, of_nodes).items():
        end = tick_end(tick, runs)
        if end is not None:
            last_ids = {run.shard_index: run.id for run in runs}
            ends[tick.origin_id] = _stored_end(session, end, last_ids)
    return ends


def _stored_end(session: Session, end: TickEnd, last_ids: dict[int, int]) -> NodeEnd:
    """Return the end of a node; `last_ids` are the last runs of its shards."""
    runs = queries.ended(session, {*last_ids.values(), end.deciding_id})
    deciding = runs[end.deciding_id]
    result = deciding.result
    if len(last_ids) > 1:
        in_order = [runs[last_ids[index]] for index in sorted(last_ids)]
        result = joined_results([run.result for run in in_order])
    message = Explanation(deciding.message or "", deciding.message_why)
    return _node_end(end.status, message, result)


def _node_end(status: RunStatus, message: Explanation, result: str | None) -> NodeEnd:
    if status is RunStatus.SKIPPED:
        return NodeEnd(Outcome.SKIPPED, message)
    if status is not RunStatus.SUCCEEDED:
        text = message.text or status.value
        return NodeEnd(Outcome.FAILED, message._replace(text=text))
    kept, size = kept_result(result)
    if size:
        why = Why.FLOW_RESULT_TOO_LONG(n=size, most=RESULT_BYTES)
        return NodeEnd(Outcome.SUCCEEDED, explanation(why))
    was_dropped = kept is None and Why.RESULT_TOO_LONG.name in (message.why or "")
    return NodeEnd(Outcome.SUCCEEDED, message if was_dropped else _NOTHING, kept)
