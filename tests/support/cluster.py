"""A whole Warren in this process: schedulers and executors on a migrated database and a broker."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.support.acting import NamedCommands
from tests.support.eventually import eventually
from tests.support.faults import CuttableTransport, MortalDatabase
from tests.support.instant_slots import HANDLERS as INSTANT
from tests.support.instant_slots import InstantSlots
from tests.support.moved_clock import AdvancedClock, MovedClock
from tests.support.scripted_slots import RemoteScriptedSlots
from warren.broker.messages import ScriptLanguage, Trigger
from warren.broker.signing import AppKeys, ClusterKeys
from warren.broker.transport import Transport
from warren.executor.agent import Executor, SchedulerLink
from warren.executor.boot_context import Limits
from warren.executor.handlers.hooks import JobCode
from warren.executor.messaging.outbox import Identity
from warren.executor.processes.interface import SlotOptions
from warren.executor.processes.slots import Slots
from warren.executor.run_logs import RunLogs
from warren.scheduler.jobs.spec import JobSpec
from warren.scheduler.node import SchedulerNode
from warren.scheduler.node_context import Timeouts
from warren.scheduler.roles import NodeOptions, Roles
from warren.sql.clock import AGREEING_SAMPLES, database_now_ms
from warren.sql.engine import Database
from warren.sql.models import Job, Run, SkippedTicks
from warren.sql.registry import apps
from warren.sql.run_status import FINAL

#: For tests in which processes die; executors beat every 0.25 s here. Not shorter, as real services
#: are slow on a busy machine.
QUICK = Timeouts(
    dead_after=1.5,
    no_executor=1.0,
    silence=0.8,
    answer=0.5,
    owner_silent=1.5,
    take_over=3.0,
    fresh=1.0,
    settle=0.3,
)

BRISK = Timeouts(
    dead_after=4.0,
    no_executor=3.0,
    silence=2.0,
    answer=1.5,
    owner_silent=1.5,
    take_over=4.0,
    fresh=2.0,
    settle=0.5,
)

#: For tests in which neither MariaDB nor RabbitMQ makes a difference.
on_memory = pytest.mark.parametrize("cluster", ["memory"], indirect=True)

SECRET = "a secret of at least thirty-two characters"
APP = "demo"

#: Handlers append a line here for each start: run id, attempt, pid.
STARTS = "starts.jsonl"

HANDLERS = """
import json, time
from pathlib import Path
from warren import job, JobContext, RetryLater

STARTS = Path(__file__).with_name("starts.jsonl")


def note(context):
    line = {"run": context.run_id, "attempt": context.attempt, "job": context.job_id}
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


@job("prints")
def prints(context: JobContext) -> None:
    note(context)
    for number in range(int(context.param)):
        print("line", number)


@job("fail")
def fail(context: JobContext) -> None:
    note(context)
    raise RuntimeError("no luck")


@job("second-time-lucky")
def second(context: JobContext) -> str:
    note(context)
    if not context.attempt:
        context.fail("attempt 0")
    return "at last"


@job("third-time-lucky")
def third(context: JobContext) -> str:
    note(context)
    if context.attempt < 2:
        context.fail(f"attempt {context.attempt}")
    return "at last"


@job("tells-date")
def tells_date(context: JobContext) -> str:
    note(context)
    return context.run_date.isoformat()


@job("skip")
def skip(context: JobContext) -> str:
    note(context)
    context.skip("holiday")


@job("later")
def later(context: JobContext) -> str:
    note(context)
    if context.param == "useless":
        context.fail("no such day", retry=False)
    raise RetryLater("1h", "the feed is late")


@job("counts-until-file")
def counts_until_file(context: JobContext) -> str:
    note(context)
    while not Path(context.param).exists():
        context.progress(3, 10, "loading")
        time.sleep(0.01)
    return "counted"


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


def _write_log(run_logs: RunLogs, text: Callable[[Trigger], bytes], trigger: Trigger) -> str:
    path = Path(run_logs.path_of(trigger.scheduled_at_ms, trigger.run_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text(trigger))
    return run_logs.tail(str(path))


class OpenNode(SchedulerNode):
    """A scheduler whose roles are accessible, so that tests can call their `run_round`."""

    def __getattr__(self, name: str) -> Any:
        if name == "roles":
            raise AttributeError(name)
        return getattr(self.roles, name)


@dataclass
class Cluster:
    """Schedulers and executors that share one database and one broker.

    Executors run handlers without processes by default.
    """

    folder: Path
    database: Database
    make_transport: Callable[[], Transport]
    timeouts: Timeouts = field(default_factory=Timeouts)
    schedulers: list[SchedulerNode] = field(default_factory=list)
    executors: list[Executor] = field(default_factory=list)
    transports: list[CuttableTransport] = field(default_factory=list)
    mortals: dict[int, MortalDatabase] = field(default_factory=dict)
    cables: dict[int, CuttableTransport] = field(default_factory=dict)
    clocks: dict[int, AdvancedClock | MovedClock] = field(default_factory=dict)
    #: The event loops of executors' threads.
    loops: dict[int, asyncio.AbstractEventLoop] = field(default_factory=dict)
    desks: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.add_app(APP)
        self.handlers = self.folder / "handlers.py"
        self.handlers.write_text(HANDLERS)

    def be_quick(self) -> None:
        """Use short timeouts in schedulers created from now on."""
        self.timeouts = QUICK if self.database.dialect.is_embedded else BRISK

    # -- processes ----------------------------------------------------------------------------

    def new_scheduler(
        self, *, clock: AdvancedClock | MovedClock | None = None, **options: Any
    ) -> SchedulerNode:
        """Return a scheduler that is not started yet; by default its clock runs."""
        mortal, cable = MortalDatabase(self.database), self._transport()
        clock = clock or AdvancedClock()
        roles = Roles(
            host="test",
            database=mortal,
            transport=cable,
            keys=ClusterKeys(SECRET),
            options=NodeOptions(**({"timezone": "UTC", "timeouts": self.timeouts} | options)),
            monotonic=clock,
        )
        node = OpenNode(roles)
        self.mortals[id(node)], self.cables[id(node)] = mortal, cable
        self.clocks[id(node)] = clock
        return node

    def pass_time(self, node: SchedulerNode, seconds: float) -> None:
        """Let time pass for a scheduler that is not started, as in a freeze; the rows stay young.

        It receives no heartbeats in that time.
        """
        self.clocks[id(node)].advance(seconds)
        for _ in range(AGREEING_SAMPLES + 1):
            node.roles.clock.run_round()

    def scheduler(self, **options: Any) -> SchedulerNode:
        node = self.new_scheduler(**options)
        self.schedulers.append(node)
        node.start()
        return node

    def crash(self, node: SchedulerNode) -> None:
        """End a scheduler as SIGKILL does: from now on it sends and commits nothing."""
        self.mortals[id(node)].die()
        self.cables[id(node)].die()
        node.roles.loops.stop()
        node.roles.alarm_roles.loops.stop()
        self.schedulers.remove(node)

    def executor(
        self,
        address: str = "one",
        *,
        app: str = APP,
        slots: int = 8,
        processes: bool = False,
        drain: float = 1.0,
        memory_limit: float = 100.0,
        beat_seconds: float = 0.25,
        lane_runs: int = 1_000,
        handlers: Sequence[str] = INSTANT,
        code_version: str = "",
        gateway: str = "",
        boot_id: str = "",
        bequest_seconds: float = 0.0,
        log_folder: Path | None = None,
        log_spool_bytes: int = 1_000_000_000,
        log_text: Callable[[Trigger], bytes] | None = None,
    ) -> Executor:
        """Start an executor; with the name of a `gateway`, the runs are elsewhere.

        Runs without processes write `log_text` when they start.
        """
        self.add_app(app)
        # A busy test machine does not make executors busy, unless a test wants that.
        busy = {"cpu_limit": 100.0, "memory_limit": memory_limit}
        others: dict[str, Any] = {"drain_seconds": drain, "beat_seconds": beat_seconds}
        run_logs = RunLogs(self.folder / "logs")
        others |= {"log_spool_bytes": log_spool_bytes}
        others |= {"lane_runs": lane_runs, "bequest_seconds": bequest_seconds}
        bounds = Limits(slots=slots, grace_seconds=1.0, **others, **busy)
        told = {"handlers": handlers, "code_version": code_version}
        starts = self.folder / STARTS
        make_slots: Any = partial(InstantSlots, starts=starts, count=slots, **told)
        if log_text is not None:
            make_slots = partial(make_slots, write_log=partial(_write_log, run_logs, log_text))
        if gateway:
            make_slots = partial(RemoteScriptedSlots, count=slots)
        elif processes:
            make_slots = partial(
                Slots,
                JobCode(sources=(str(self.handlers),)),
                run_logs,
                SlotOptions(
                    count=slots,
                    grace_seconds=bounds.grace_seconds,
                    script_languages=list(ScriptLanguage),
                ),
            )
        loops: list[asyncio.AbstractEventLoop] = []

        def make_slots_on(*, loop: asyncio.AbstractEventLoop, **facts: Any) -> Any:
            loops.append(loop)
            return make_slots(loop=loop, **facts)

        cable = self._transport()
        executor = Executor(
            Identity.checked(app, address, boot_id),
            SchedulerLink(cable, AppKeys.derived(app, SECRET)),
            make_slots=make_slots_on,
            run_logs=run_logs,
            state=self.folder / (gateway or "state"),
            limits=bounds,
            log_folder=log_folder,
        )
        self.cables[id(executor)] = cable
        self.executors.append(executor)
        executor.start()
        [self.loops[id(executor)]] = loops
        return executor

    def kill(self, executor: Executor) -> None:
        """End an executor without processes as SIGKILL does."""
        self.cables[id(executor)].die()
        loop = self.loops[id(executor)]
        with suppress(RuntimeError):  # it used the cable in between, which ended it
            loop.call_soon_threadsafe(loop.stop)
        assert executor.join(30)
        self.executors.remove(executor)

    def is_online(self, address: str = "one", *, app: str = APP) -> bool:
        """Whether every scheduler would route to this address."""
        return all(address in node.roster.routable(app) for node in self.schedulers)

    def wait_online(self, *addresses: str) -> None:
        eventually(lambda: all(map(self.is_online, addresses or ("one",))))

    # -- people -------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self.database.read(database_now_ms)

    def commands(self) -> NamedCommands:
        return NamedCommands(self.database, self.now_ms, who="test")

    def add_app(self, name: str) -> None:
        self.database.write(lambda session: apps.ensure(session, name))

    def apply(self, *specs: JobSpec) -> None:
        self.commands().apply([], specs, dry_run=False, prune=False)

    def job(self, name: str, **fields: Any) -> None:
        self.apply(JobSpec(name=name, **({"handler": "noop", "app": APP} | fields)))

    def set_job(self, name: str, **columns: Any) -> None:
        """Change a job's row directly, as another program might."""

        def unit(session: Any) -> None:
            for column, value in columns.items():
                setattr(
                    session.execute(select(Job).filter_by(name=name)).scalar_one(),
                    column,
                    value,
                )

        self.database.write(unit)

    def stop_jobs(self) -> None:
        for job in self.jobs():
            if job.is_enabled:
                self.commands().stop(job.name)

    def trigger(self, name: str, param: str | None = None, addresses: Sequence[str] = ()) -> int:
        return self.commands().trigger(name, param=param, addresses=addresses)

    # -- what is there ------------------------------------------------------------------------

    def jobs(self, **where: Any) -> list[Job]:
        statement = select(Job).filter_by(**where).order_by(Job.id)
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def runs(self, **where: Any) -> list[Run]:
        statement = select(Run).filter_by(**where).order_by(Run.id)
        return self.database.read(lambda session: list(session.execute(statement).scalars()))

    def run(self, run_id: int) -> Run:
        return self.runs(id=run_id)[0]

    def skips(self) -> list[SkippedTicks]:
        return self.database.read(lambda s: list(s.execute(select(SkippedTicks)).scalars()))

    def wait_final(self, run_id: int, seconds: float = 60.0) -> Run:
        eventually(lambda: self.run(run_id).status in FINAL, seconds)
        return self.run(run_id)

    def wait_status(self, run_id: int, status: str, seconds: float = 60.0) -> Run:
        eventually(lambda: self.run(run_id).status == status, seconds)
        return self.run(run_id)

    def starts(self) -> list[dict[str, Any]]:
        path = self.folder / STARTS
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def close(self) -> None:
        for cable in self.transports:
            cable.is_cut = False
        for desk in self.desks:
            desk.close()
        for executor in self.executors:
            executor.stop(hurry=True)
        stuck = [one.identity.address for one in self.executors if not one.join(60)]
        # What goes on would disturb every later test.
        for node in self.schedulers:
            node.stop()
        for transport in self.transports:
            transport.close()
        self.database.close()
        assert not stuck

    def _transport(self) -> CuttableTransport:
        transport = CuttableTransport(self.make_transport())
        self.transports.append(transport)
        return transport
