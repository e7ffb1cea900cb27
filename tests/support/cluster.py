"""A whole Warren in this process: schedulers and executors on a given database and broker."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import select

from broker.transport import Transport
from executor.agent import Executor
from executor.premises import Limits
from executor.runlog import RunLogs
from executor.slots import Slots
from scheduler.commands import Commands
from scheduler.job_spec import JobSpec
from scheduler.node import SchedulerNode
from sql import schema
from sql.engine import Database
from sql.models import Run, SkippedTicks
from sql.run_status import FINAL
from tests.support.eventually import eventually

SECRET = "a secret of at least thirty-two characters"
APP = "demo"

#: Handlers append a line here for each start: run id, attempt, pid.
STARTS = "starts.jsonl"

HANDLERS = """
import json, os, time
from pathlib import Path
from warren import job, JobContext

STARTS = Path(__file__).with_name("starts.jsonl")


def note(context):
    line = {"run": context.run_id, "attempt": context.attempt, "pid": os.getpid(), "job": context.job_id}
    with STARTS.open("a") as out:
        out.write(json.dumps(line) + "\\n")


@job("noop")
def noop(context: JobContext) -> str:
    note(context)
    return "done"


@job("echo")
def echo(context: JobContext) -> str:
    note(context)
    print("param", context.param)
    return context.param


@job("fail")
def fail(context: JobContext) -> None:
    note(context)
    raise RuntimeError("no luck")


@job("third-time-lucky")
def third(context: JobContext) -> str:
    note(context)
    if context.attempt < 2:
        context.fail(f"attempt {context.attempt}")
    return "at last"


@job("sleep")
def sleep(context: JobContext) -> str:
    note(context)
    time.sleep(float(context.param or 60))
    return "slept"


@job("until-file")
def until_file(context: JobContext) -> str:
    note(context)
    while not Path(context.param).exists():
        time.sleep(0.01)
    return "released"
"""


@dataclass
class Cluster:
    """Schedulers and executors that share one database and one broker."""

    folder: Path
    database: Database
    make_transport: Callable[[], Transport]
    schedulers: list[SchedulerNode] = field(default_factory=list)
    executors: list[Executor] = field(default_factory=list)
    transports: list[Transport] = field(default_factory=list)

    def __post_init__(self) -> None:
        schema.upgrade(self.database)
        self.handlers = self.folder / "handlers.py"
        self.handlers.write_text(HANDLERS)

    def scheduler(self) -> SchedulerNode:
        node = SchedulerNode(
            host="test",
            database=self.database,
            transport=self._transport(),
            secret=SECRET,
            timezone="UTC",
        )
        self.schedulers.append(node)
        node.start()
        return node

    def executor(
        self, address: str = "one", *, app: str = APP, slots: int = 4, **limits: Any
    ) -> Executor:
        logs = RunLogs(self.folder / "logs")
        bounds = Limits(slots=slots, grace_seconds=1.0, drain_seconds=limits.get("drain", 1.0))
        executor = Executor(
            app=app,
            address=address,
            transport=self._transport(),
            secret=SECRET,
            make_slots=partial(
                Slots,
                sources=[str(self.handlers)],
                count=slots,
                run_logs=logs,
                grace_seconds=bounds.grace_seconds,
            ),
            run_logs=logs,
            state_dir=self.folder / "state",
            limits=bounds,
        )
        self.executors.append(executor)
        executor.start()
        return executor

    def commands(self) -> Commands:
        return Commands(self.database, self.schedulers[0].clock.now_ms, timezone="UTC", who="test")

    def apply(self, *specs: JobSpec) -> None:
        self.commands().apply([], specs, dry_run=False, prune=False)

    def job(self, name: str, **fields: Any) -> None:
        self.apply(JobSpec(name=name, app=APP, **{"handler": "noop", **fields}))

    def trigger(self, name: str, param: str | None = None, addresses: Sequence[str] = ()) -> int:
        run_id = self.commands().trigger(name, param=param, addresses=addresses)
        return run_id

    def runs(self, **where: Any) -> list[Run]:
        statement = select(Run).filter_by(**where).order_by(Run.id)
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def run(self, run_id: int) -> Run:
        return self.runs(id=run_id)[0]

    def skips(self) -> list[SkippedTicks]:
        return self.database.read(lambda s: list(s.execute(select(SkippedTicks)).scalars()))

    def wait_final(self, run_id: int, seconds: float = 20.0) -> Run:
        eventually(lambda: self.run(run_id).status in FINAL, seconds)
        return self.run(run_id)

    def starts(self) -> list[dict[str, int]]:
        path = self.folder / STARTS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def close(self) -> None:
        for executor in self.executors:
            executor.stop(hurry=True)
        for executor in self.executors:
            assert executor.join(20)
        for node in self.schedulers:
            node.stop()
        for transport in self.transports:
            transport.close()
        self.database.close()

    def _transport(self) -> Transport:
        transport = self.make_transport()
        self.transports.append(transport)
        return transport
