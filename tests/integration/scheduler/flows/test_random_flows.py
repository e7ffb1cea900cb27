"""Random flows, whose nodes end in random orders, become what docs/flows.md says."""

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tests.integration.scheduler.flow_play import flow as flow_job
from tests.integration.scheduler.flow_play import job, nodes_of
from tests.support import flow_judge
from tests.support.acting import acting
from tests.support.cluster import Cluster, on_memory
from tests.support.flow_judge import NOTHING, Decided, Flow, Judged, Known
from tests.support.random_flows import random_fates, random_flow, said
from tests.support.sql_rows import put
from warren.scheduler.audit.integrity_check import audit
from warren.scheduler.commands.reruns import RerunOptions
from warren.scheduler.completion.completion import Completion
from warren.scheduler.completion.end import End
from warren.scheduler.node import SchedulerNode
from warren.sql.ids import RunIds
from warren.sql.models import FlowNode, Job, Run
from warren.sql.run_status import OPEN, Kind, RunStatus
from warren.sql.runs import planned_runs

pytestmark = on_memory

#: Another one, such as a failure's: SEED=7 .venv/bin/pytest …/test_random_flows.py
SEED = int(os.environ.get("SEED", "41"))
FLOWS = 200

Keep = Callable[[], None]


class Died(Exception):
    """A scheduler died before its commit."""


@dataclass
class Play:
    """A random flow, its runs one after the other, and what is expected of each."""

    seed: str
    chance: random.Random = field(init=False)
    flow: Flow = field(init=False)
    retries: int = field(init=False)
    run_ids: list[int] = field(default_factory=list)
    expected: list[Judged] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.flow = random_flow(self.chance)
        self.retries = self.chance.choice([0, 0, 1, 2])

    @property
    def name(self) -> str:
        return f"flow-{self.seed}"

    def end_of(self, run: Any) -> End:
        """Return how an attempt ends in the run of the flow that it belongs to."""
        fates = self._fates(self.run_ids.index(run.flow_run_id))
        fate = fates(run.node, run.shard_index, run.attempt)
        result = "" if fate.result is None else json.dumps(fate.result)
        status = RunStatus(fate.status)
        return End(run_id=run.id, status=status, message="", finished_at=1_000, result=result)

    def begins(self, run_id: int, kept: Known = NOTHING, begin: str | None = None) -> None:
        """Note a run of the flow, and decide what must become of it."""
        self.run_ids.append(run_id)
        fates = self._fates(len(self.run_ids) - 1)
        self.expected.append(flow_judge.judge(self.flow, fates, kept, begin))

    def _fates(self, number: int) -> flow_judge.Fates:
        return random_fates(f"{self.seed} {number}")

    def to_repeat(self) -> set[str]:
        return flow_judge.to_repeat(self.flow, self.expected[-1])

    def kept(self, again: set[str]) -> Known:
        return flow_judge.kept_from(self.flow, self.expected[-1], again)

    def any_node(self) -> str:
        return self.chance.choice(list(self.flow))

    def all_but(self, node: str) -> Known:
        return flow_judge.kept_but(self.expected[-1], {node})

    def told(self) -> str:
        """Return all that a person needs to see it again."""
        graph = json.dumps(said(self.flow, random.Random(0)), indent=1)
        return f"seed {self.seed}, retries {self.retries}, {self.asked}: {graph}"


@dataclass(frozen=True, slots=True)
class Again:
    """A repetition that is asked for."""

    play: Play
    kept: Known
    begin: str | None = None


@pytest.fixture
def keep(still: SchedulerNode, cluster: Cluster) -> Keep:
    """Let the keeper of flows make a round."""
    return lambda: still.flow_keeper.run_round(cluster.now_ms())  # type: ignore[attr-defined]


def test_random_flows_become_what_their_page_says(cluster: Cluster, keep: Keep) -> None:
    plays = [Play(f"{SEED}-{number}") for number in range(FLOWS)]
    begin(cluster, plays)
    stage = Stage(cluster, plays, keep)

    stage.play()
    for _ in range(2):
        ask_for_more(cluster, plays)
        stage.play()

    wrong = list(differences(cluster, plays))
    assert not wrong, "\n".join(wrong[:5])
    assert audit(cluster.database, since_ms=0, until_ms=2**53, timezone="UTC").is_sound


def begin(cluster: Cluster, plays: Sequence[Play]) -> None:
    """Plan a run of each flow."""
    flows = [
        flow_job(one.name, said(one.flow, one.chance), retries=one.retries, timeout=3_600)
        for one in plays
    ]
    cluster.apply(job("a"), *flows)
    rows = {row.name: row for row in cluster.jobs()}
    now_ms, ids = cluster.now_ms(), RunIds(cluster.database)
    new = [
        planned_runs.NewRun(
            app_id=rows[play.name].app_id,
            job_id=rows[play.name].id,
            handler=None,
            script_version=rows[play.name].script_version,
            param="",
            kind=Kind.SCHEDULE,
            scheduled_at=now_ms,
            due_at=now_ms,
            retries_left=play.retries,
        )
        for play in plays
    ]
    run_ids = cluster.database.write(lambda session: planned_runs.plan(session, new, ids))
    for play, run_id in zip(plays, run_ids, strict=True):
        play.begins(run_id)


class Stage:
    """Ends runs, some of each flow in a transaction, until all are over.

    Now and then a scheduler dies before its commit, and another one does the same again; or a
    report arrives twice.
    """

    def __init__(self, cluster: Cluster, plays: Sequence[Play], keep: Keep) -> None:
        self._cluster = cluster
        self._keep = keep
        self._plays = {play.name: play for play in plays}
        self._chance = random.Random(SEED)
        self._now_ms = 0
        self._scheduler = self._new_scheduler()

    def play(self) -> None:
        """Go on until every flow is over."""
        for _ in range(1_000):
            self._now_ms = self._cluster.now_ms()
            found = self._cluster.database.read(self._open)
            waiting = self._cluster.database.read(self._waiting)
            if not found and not waiting:
                return
            if found and self._chance.random() < 0.3:
                self._stop(self._plays[self._chance.choice(list(found))])
                continue
            ends = self._some(found)
            unit = partial(self._act, waiting=waiting, ends=ends)
            if self._chance.random() < 0.3:
                with suppress(Died):
                    self._cluster.database.write(partial(_die, unit))
                self._scheduler = self._new_scheduler()
            for _ in range(1 + (self._chance.random() < 0.2)):
                self._cluster.database.write(unit)
        raise AssertionError("flows are still open")

    def _new_scheduler(self) -> Completion:
        return Completion(RunIds(self._cluster.database), lambda: self._now_ms)

    def _act(self, session: Session, waiting: Sequence[int], ends: Sequence[End]) -> None:
        one = self._scheduler
        one.carry_on(session, one.flows.open(session, waiting))
        ids = [end.run_id for end in ends]
        sent = {"status": RunStatus.SENT, "routed_at": self._now_ms, "address": "a"}
        is_open = Run.id.in_(ids), Run.status == RunStatus.PLANNED
        session.execute(update(Run).where(*is_open).values(**sent))
        one.end(session, ends)

    def _stop(self, play: Play) -> None:
        """Let somebody kill a flow, or let it take too long; note what must become of it."""
        run_id, status = play.run_ids[-1], self._chance.choice(["KILLED", "TIMED_OUT"])
        rows = nodes_of(self._cluster, run_id).values()
        over = {row.node for row in rows if row.outcome}
        begun = {row.node for row in rows if row.begun_at}
        play.expected[-1] = flow_judge.stop(play.expected[-1], status, begun, over)
        play.asked.append(f"{status} when {over} are over and {begun - over} run")
        if status == "KILLED":
            self._cluster.commands().kill(run_id)
        else:
            put(self._cluster.database, [run_id], due_at=1, started_at=1)
        self._keep()

    def _waiting(self, session: Session) -> list[int]:
        """Return the runs of flows that are planned, retries included."""
        wanted = (
            select(Run.id, Job.name)
            .join(Job, Job.id == Run.job_id)
            .where(Run.status == RunStatus.PLANNED, Job.name.in_(self._plays))
            .order_by(Run.id)
        )
        waiting = []
        for row in session.execute(wanted):
            play = self._plays[row.name]
            if row.id not in play.run_ids:
                play.begins(row.id, play.kept(play.to_repeat()))
            waiting.append(row.id)
        return waiting

    def _open(self, session: Session) -> dict[str, list[Any]]:
        columns = (Run.id, Run.flow_run_id, Run.shard_index, Run.attempt, FlowNode.node)
        wanted = (
            select(*columns)
            .join(FlowNode, FlowNode.id == Run.origin_id)
            .where(Run.status.in_(OPEN), Run.flow_run_id.is_not(None))
            .order_by(Run.id)
        )
        of_run = {run_id: play.name for play in self._plays.values() for run_id in play.run_ids}
        found = defaultdict(list)
        for row in session.execute(wanted):
            found[of_run[row.flow_run_id]].append(row)
        return found

    def _some(self, found: dict[str, list[Any]]) -> list[End]:
        """Return ends of some of the runs, in any order."""
        ends = []
        for name, runs in found.items():
            play = self._plays[name]
            chosen = play.chance.sample(runs, play.chance.randint(0, len(runs)))
            ends += [play.end_of(run) for run in chosen]
        return self._chance.sample(ends, len(ends))


def _die(unit: Callable[[Session], None], session: Session) -> None:
    unit(session)
    raise Died


def ask_for_more(cluster: Cluster, plays: Sequence[Play]) -> None:
    """Repeat each flow: from its failure, from a node, for one node, or as a whole."""
    wanted: dict[RerunOptions, dict[int, Again]] = defaultdict(dict)
    for play in plays:
        how, node = play.chance.choice(["failed", "from", "only", "all"]), play.any_node()
        play.asked.append(f"{how} {node}")
        if how == "failed" and play.to_repeat():
            again = Again(play, play.kept(play.to_repeat()))
            wanted[RerunOptions(failed=True)][play.run_ids[-1]] = again
        elif how == "from":
            again = Again(play, play.kept({node}), node)
            wanted[RerunOptions(from_node=node)][play.run_ids[-1]] = again
        elif how == "only":
            again = Again(play, play.all_but(node), node)
            wanted[RerunOptions(only_node=node)][play.run_ids[-1]] = again
        elif how == "all":
            wanted[RerunOptions()][play.run_ids[-1]] = Again(play, NOTHING)
    for options, repeated in wanted.items():
        new_ids, _ = acting(cluster.database).runs.rerun(list(repeated), options)
        for run in cluster.runs(kind=Kind.RERUN):
            if run.id in new_ids:
                again = repeated[run.rerun_of]
                again.play.begins(run.id, again.kept, again.begin)


def differences(cluster: Cluster, plays: Sequence[Play]) -> Iterator[str]:
    """Yield what differs from what the judge says."""
    wanted = select(FlowNode)
    rows = cluster.database.read(lambda session: list(session.execute(wanted).scalars()))
    runs: dict[int, list[Run]] = defaultdict(list)
    for run in cluster.runs():
        runs[run.origin_id].append(run)
    became = {(row.flow_run_id, row.node): _became(row, runs[row.id]) for row in rows}
    flows = {run.id: run.status for run in cluster.runs(flow_run_id=None)}
    for play in plays:
        for number, (run_id, judged) in enumerate(zip(play.run_ids, play.expected, strict=True)):
            if flows[run_id] != judged.status:
                yield f"run {number} is {flows[run_id]}, not {judged.status}: {play.told()}"
            for name, expected in judged.nodes.items():
                got = became.get((run_id, name))
                if got is not None and name in judged.stopped:  # its runs may have begun or not
                    got = Decided(got.outcome, is_kept=got.is_kept)
                if got != expected:
                    yield f"{name} of run {number} is {got}, not {expected}: {play.told()}"


def _became(row: FlowNode, runs: Sequence[Run]) -> Decided:
    first = sorted((run.shard_index, run.param) for run in runs if run.attempt == 0)
    return Decided(
        str(row.kept_outcome or row.outcome),
        json.loads(row.result or "null"),
        len(runs),
        tuple(json.loads(param or "null") for _, param in first),
        is_kept=row.outcome == "KEPT",
    )
