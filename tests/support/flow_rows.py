"""A flow and a run of it, as rows: for what shows them, without a scheduler."""

from typing import Any

from sqlalchemy import insert, select, update

from tests.support.stored_rows import Rows
from warren.scheduler.flows.graph import parse
from warren.sql.jobs import job_links
from warren.sql.models import FlowNode, Job, Run, ScriptVersion
from warren.sql.models.job_tables import FLOW_TYPE
from warren.sql.run_status import Kind, RunStatus
from warren.sql.runs.transitions import ENTERED

#: A night: two ways that meet, a handler of failures, and a list.
NIGHT: dict[str, Any] = {
    "extract": {"job": "extract"},
    "load": {"job": "load", "after": "extract", "retries": 2},
    "parts": {"job": "part", "after": "load", "each": "{{ load.result.files }}"},
    "mend": {"job": "mend", "after": {"load": "failure"}},
    "report": {"job": "report", "after": ["parts", "mend"], "join": "any", "if": "{{ true }}"},
}


class FlowRows:
    """A flow with a job for each node, and one run of it."""

    def __init__(
        self,
        rows: Rows,
        at_ms: int,
        flow: dict[str, Any] | None = None,
        *,
        name: str = "nightly",
        **columns: Any,
    ) -> None:
        self._rows, self.at_ms = rows, at_ms
        graph = parse(NIGHT if flow is None else flow)
        self.jobs = {job: self._job(job) for job in graph.jobs}
        self.graph = graph
        self.job_id = rows.job(name, handler=None)
        self.run_id = rows.run(self.job_id, at_ms, **columns)
        self.nodes: dict[str, int] = {}

        def unit(session: Any) -> None:
            version = ScriptVersion(
                job_id=self.job_id,
                script_type=FLOW_TYPE,
                source=graph.to_json(),
                remark="",
                number=1,
            )
            session.add(version)
            session.flush()
            values = {"script_type": FLOW_TYPE, "script_version": version.id}
            values |= {"flow": graph.to_json()}
            session.execute(update(Job).where(Job.id == self.job_id).values(**values))
            pinned = {"script_version": version.id, "handler": None}
            session.execute(update(Run).where(Run.id == self.run_id).values(**pinned))

            nodes = {self.job_id: self.jobs.values()}
            job_links.set_nodes(session, nodes)

        rows.database.write(unit)

    def _job(self, name: str) -> int:
        wanted = select(Job.id).where(Job.name == name)
        known = self._rows.database.read(lambda s: s.execute(wanted).scalar_one_or_none())
        return known or self._rows.job(name)

    def open(self, **nodes: dict[str, Any]) -> None:
        """Insert the nodes; those given have these columns."""
        made = [
            {
                "id": self.run_id * 10_000 + number,
                "flow_run_id": self.run_id,
                "node": name,
                "job_id": self.jobs[self.graph.nodes[name].job],
            }
            for number, name in enumerate(self.graph.nodes, 1)
        ]
        self.nodes = {str(row["node"]): int(row["id"]) for row in made}

        def unit(session: Any) -> None:
            session.execute(insert(FlowNode), made)
            for name, columns in nodes.items():
                session.execute(
                    update(FlowNode).where(FlowNode.id == self.nodes[name]).values(**columns)
                )

        self._rows.database.write(unit)

    def over(self, status: str) -> None:
        """End the flow's run."""
        ended = {"status": status, "finished_at": self.at_ms + 50_000}
        ended |= ENTERED[RunStatus(status)]
        statement = update(Run).where(Run.id == self.run_id).values(**ended)
        self._rows.database.write(lambda session: session.execute(statement))

    def run(self, node: str, status: str, **columns: Any) -> int:
        """Insert a run of a node."""
        return self._rows.run(
            self.jobs[self.graph.nodes[node].job],
            self.at_ms,
            status=status,
            kind=columns.pop("kind", Kind.NODE),
            origin_id=self.nodes[node],
            flow_run_id=self.run_id,
            **columns,
        )


def night(rows: Rows, now_ms: int) -> FlowRows:
    """Return a flow in the middle of its run."""
    flow = FlowRows(rows, now_ms - 60_000, status="RUNNING", started_at=now_ms - 60_000)
    begun = {"shards": 1, "begun_at": now_ms - 60_000}
    flow.open(
        extract=begun | {"outcome": "SUCCEEDED", "ended_at": now_ms - 50_000},
        load={"shards": 1, "begun_at": now_ms - 50_000, "ended_at": now_ms - 20_000}
        | {"outcome": "SUCCEEDED"},
        parts={"shards": 3, "begun_at": now_ms - 20_000},
        mend={
            "outcome": "BYPASSED",
            "ended_at": now_ms - 20_000,
            "reason": "load succeeded, and its failure was needed",
        },
    )
    flow.run("extract", "SUCCEEDED", started_at=now_ms - 58_000, finished_at=now_ms - 50_000)
    flow.run("load", "FAILED", started_at=now_ms - 49_000, finished_at=now_ms - 40_000)
    again = {"kind": Kind.RETRY, "attempt": 1, "starts": 1}
    flow.run("load", "SUCCEEDED", started_at=now_ms - 38_000, finished_at=now_ms - 20_000, **again)
    shards = {"shard_total": 3}
    ended = {"started_at": now_ms - 19_000, "finished_at": now_ms - 9_000}
    flow.run("parts", "SUCCEEDED", shard_index=0, **ended, **shards)
    flow.run("parts", "RUNNING", shard_index=1, started_at=now_ms - 19_000, **shards)
    flow.run("parts", "FAILED", shard_index=2, **ended, **shards)
    return flow
