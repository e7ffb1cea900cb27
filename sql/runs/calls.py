"""Runs that other runs called; each call of a due time and shard is stored once."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sqlalchemy import ColumnElement, and_, func, or_, select, update
from sqlalchemy.orm import Session

from warren.sql.batch import chunks, insert_or_ignore, modify
from warren.sql.explanation import Explanation
from warren.sql.models import Call, FlowNode, Run
from warren.sql.runs import queries
from warren.sql.runs.run_rows import RunFacts

#: Calls in one statement: each has a condition of its own.
_CHUNK = 100
#: How far a chain of re-runs of re-runs is followed back.
_MAX_RERUNS = 100


class NumberedCall(NamedTuple):
    """A call: the caller's tick and shard, its number, the caller, and the run that it asks for."""

    job_id: int
    scheduled_at: int
    origin_id: int
    shard_index: int
    number: int
    called_by: int
    run_id: int


def first_origin(session: Session, caller: RunFacts) -> int:
    """Return the origin of the run that was repeated first, under which calls are kept.

    The node of a flow is repeated by runs of that node in other runs of its flow.
    """
    first = _repeated(session, caller)[-1]
    if first.flow_run_id is None:
        return first.origin_id
    of_flow = queries.facts(session, [first.flow_run_id]).get(first.flow_run_id)
    if of_flow is None:  # deleted
        return first.origin_id
    repeated = _repeated(session, of_flow)
    named = select(FlowNode.node).where(FlowNode.id == first.origin_id).scalar_subquery()
    nodes = (
        select(func.min(FlowNode.id))
        .join(Run, Run.id == FlowNode.flow_run_id)
        .where(
            Run.job_id == of_flow.job_id,
            Run.scheduled_at == of_flow.scheduled_at,
            Run.origin_id.in_({run.origin_id for run in repeated}),
            FlowNode.node == named,
        )
    )
    return session.execute(nodes).scalar_one() or first.origin_id


def _repeated(session: Session, run: RunFacts) -> list[RunFacts]:
    """Return a run, the one that it repeats, and so on back to the first."""
    chain = [run]
    while run.rerun_of is not None and len(chain) <= _MAX_RERUNS:
        repeated = queries.facts(session, [run.rerun_of]).get(run.rerun_of)
        if repeated is None:  # deleted
            break
        run = repeated
        chain.append(run)
    return chain


def keep(session: Session, calls: Sequence[NumberedCall]) -> set[int]:
    """Store calls; return the runs of those that are new, which are to be planned.

    Of two transactions that store the same call, the second waits for the first.
    """
    ordered = sorted(calls)
    insert_or_ignore(session, Call, [call._asdict() for call in ordered], key="number")
    stored = {
        run_id
        for chunk in chunks(ordered, _CHUNK)
        for run_id in session.execute(
            select(Call.run_id).where(or_(*(_is_same(call) for call in chunk)))
        ).scalars()
    }
    return stored & {call.run_id for call in calls}


def run_called(session: Session, caller: RunFacts, number: int) -> int | None:
    """Return the run stored for a call; None if there is none."""
    tick = (caller.job_id, caller.scheduled_at, first_origin(session, caller), caller.shard_index)
    same = _is_same(NumberedCall(*tick, number, called_by=0, run_id=0))
    return session.execute(select(Call.run_id).where(same)).scalar_one_or_none()


def trigger_why(session: Session, run_id: int) -> str | None:
    """Return the reason behind a run's trigger message, as JSON; None if it has none."""
    return session.execute(select(Run.trigger_why).where(Run.id == run_id)).scalar_one_or_none()


def note_refusal(session: Session, run_id: int, *, text: str, why: str | None) -> None:
    """Store a run's trigger message after one of its calls was refused."""
    row = update(Run).where(Run.id == run_id)
    modify(session, row.values(trigger_message=text, trigger_why=why))


class Calling(Protocol):
    """A run that may have called others."""

    @property
    def id(self) -> int: ...
    @property
    def job_id(self) -> int: ...
    @property
    def scheduled_at(self) -> int: ...
    @property
    def origin_id(self) -> int: ...
    @property
    def shard_index(self) -> int: ...


def of_run(session: Session, run: Calling) -> list[int]:
    """Return the ids of the runs that a run, or another attempt of it, has called."""
    of_shard = select(Call.run_id).where(
        Call.job_id == run.job_id,
        Call.scheduled_at == run.scheduled_at,
        Call.origin_id == run.origin_id,
        Call.shard_index == run.shard_index,
    )
    of_caller = select(Call.run_id).where(Call.called_by == run.id)
    # Two statements, because the database would read a union through a temporary table.
    return sorted({*session.execute(of_shard).scalars(), *session.execute(of_caller).scalars()})


def lock_trigger_text(session: Session, run_id: int) -> Explanation | None:
    """Lock a run, and return its trigger message; None if the run is gone."""
    texts = select(Run.trigger_message, Run.trigger_why).where(Run.id == run_id)
    row = session.execute(texts.with_for_update()).one_or_none()
    return None if row is None else Explanation(row[0] or "", row[1])


def _is_same(call: NumberedCall) -> ColumnElement[bool]:
    return and_(
        Call.job_id == call.job_id,
        Call.scheduled_at == call.scheduled_at,
        Call.origin_id == call.origin_id,
        Call.shard_index == call.shard_index,
        Call.number == call.number,
    )
