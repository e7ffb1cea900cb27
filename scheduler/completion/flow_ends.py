"""How the nodes of flows end: once all their runs are over, with the last retry of each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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

    `results` are those of its runs, in the order of their shards, and `result` what is kept of
    them. `is_told`: if it failed, the end of its run has raised the alarm.
    """

    outcome: Outcome
    reason: Explanation = _NOTHING
    result: str | None = None
    results: tuple[str | None, ...] = ()
    is_told: bool = True

    def kept(self, *, is_list: bool) -> "NodeEnd":
        """Return the end with the result that is kept: a list, or that of its only run."""
        if not self.results or self.reason.text:
            return self
        joined = joined_results(self.results) if is_list else self.results[0]
        result, size = kept_result(joined)
        why = Why.FLOW_RESULT_TOO_LONG(n=size, most=RESULT_BYTES)
        return replace(self, result=result, reason=explanation(why) if size else _NOTHING)


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
    told = {run_id: Explanation(run.message or "", run.message_why) for run_id, run in runs.items()}
    in_order = [last_ids[index] for index in sorted(last_ids)]
    dropped = next((told[run_id] for run_id in in_order if _was_dropped(told[run_id])), None)
    message = dropped or told[end.deciding_id]
    return _node_end(end.status, message, *(runs[run_id].result for run_id in in_order))


def _node_end(status: RunStatus, message: Explanation, *results: str | None) -> NodeEnd:
    if status is RunStatus.SKIPPED:
        return NodeEnd(Outcome.SKIPPED, message)
    if status is not RunStatus.SUCCEEDED:
        text = message.text or status.value
        return NodeEnd(Outcome.FAILED, message._replace(text=text))
    reason = message if _was_dropped(message) else _NOTHING
    return NodeEnd(Outcome.SUCCEEDED, reason, results=results)


def _was_dropped(message: Explanation) -> bool:
    """Whether a result is not kept with its run: it was too long, or could not be stored."""
    lost = (Why.RESULT_TOO_LONG.name, Why.RESULT_NOT_STORED.name)
    return any(name in (message.why or "") for name in lost)
