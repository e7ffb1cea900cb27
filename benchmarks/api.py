"""Measures the HTTP API beside a scheduler: `python -m benchmarks.api [--quick]`.

One API process answers clients with persistent connections. For comparison, the same run measures a
bare Flask view behind the same server, and the same calls without HTTP. Clients, servers and
everything behind them share this machine.
"""

import argparse
import asyncio
import itertools
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import cpu
from benchmarks.http_load import Connection, Load, asked_meanwhile, load, together
from benchmarks.measures import lateness_spread
from benchmarks.servers import servers
from benchmarks.stack import APP, Stack, none_open
from benchmarks.table import Row, Table
from tests.support.acting import acting
from tests.support.eventually import eventually
from tests.support.service import Service
from warren.client import AsyncClient, Trigger
from warren.resources.operation import Scope
from warren.scheduler.commands.account_commands import TokenSpec
from warren.scheduler.commands.triggers import Trigger as PlannedTrigger
from warren.scheduler.jobs.spec import JobSpec
from warren.sql.accounts import users
from warren.sql.accounts.users import Rights, Role
from warren.sql.engine import Database
from warren.sql.listings import ledger, recent
from warren.sql.models import Run
from warren.sql.run_status import Kind

CLIENTS = 8
JOB, OWNER = "by-api", "bench"
#: A job of a typed handler, whose param is checked at each trigger.
TYPED, PARAM = "typed", '{"day": "2026-12-01", "parts": 3}'
READS_GOAL, TRIGGERS_GOAL, P99_GOAL_MS = 1_000, 300, 100
#: High enough that no client is rate-limited.
RATES = {"WARREN_API_RATE": "100000", "WARREN_API_TRIGGER_RATE": "100000"}
#: What CPUWeight=20 of the systemd units comes to.
API_NICE = 7
WAITERS = (100, 1_000)
#: The job of runs at times of their own, how many one call plans, and such calls at a time.
LATER, BATCH, BATCHES = "later", 100, 4
PROCESSES = 3
#: How long before the run's due time the clients begin to wait.
WAIT_MS, QUICK_WAIT_MS = 20_000, 3_000
KEPT = Path("build/bench-api.json")


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.api", description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="short, and with few clients")
    quick = arguments.parse_args().quick
    with (
        tempfile.TemporaryDirectory(prefix="warren-bench-") as folder,
        servers(Path(folder)) as own,
    ):
        stack = Stack(own)
        table = Table(own.facts())
        print(table.machine, flush=True)
        stack.start()
        try:
            table.add(_rows(stack, seconds=1.0 if quick else 10.0, quick=quick))
        finally:
            stack.close()
        table.save(KEPT)


def _rows(stack: Stack, *, seconds: float, quick: bool) -> Iterator[Row]:
    [job_id, _] = stack.apply(
        [
            JobSpec(name=JOB, app=APP, handler="noop", concurrency=8),
            JobSpec(name=TYPED, app=APP, handler="typed", param=PARAM, concurrency=8),
        ]
    )
    token = _token(stack)
    runs = acting(stack.database, stack.clock.now_ms).runs
    run_id = runs.trigger(job_id)
    stack.wait(none_open)
    apis = [_serve(stack, f"api-{number}") for number in range(PROCESSES)]
    urls = [_url(api) for api in apis]
    bare = stack.serve_module("benchmarks.bare.bare_view")
    bare_url = _address(bare, r"^bare: (\S+)$")

    view = _Measured(bare, _clients(bare_url, "", "GET", "/"), seconds)
    direct = _direct(seconds, lambda: _read(stack.database, run_id))
    path = f"/api/v1/runs/{run_id}"
    reads = _Measured(apis[0], _clients(urls[0], token, "GET", path), seconds)
    yield _row("a bare view", view, "")
    yield _row("reads of a run", reads, _ratio(reads, view, direct), READS_GOAL)

    path = f"/api/v1/jobs/{APP}/{JOB}/runs"
    direct = _direct(
        seconds,
        # What the API does, without HTTP.
        lambda: runs.trigger_once(job_id, PlannedTrigger(kind=Kind.API)),
    )
    stack.wait(none_open)
    triggers = _Measured(apis[0], _clients(urls[0], token, "POST", path), seconds)
    yield _row("triggers", triggers, _ratio(triggers, view, direct), TRIGGERS_GOAL)
    stack.wait(none_open)

    path = f"/api/v1/jobs/{APP}/{TYPED}/runs"
    typed = _Measured(apis[0], _clients(urls[0], token, "POST", path), seconds)
    ratio = f"{typed.cpu_ms / triggers.cpu_ms:.2f} of the processor time of others"
    yield _row("triggers of a typed handler", typed, ratio, TRIGGERS_GOAL)
    stack.wait(none_open)

    [later_id] = stack.apply([JobSpec(name=LATER, app=APP, handler="noop")])
    path = f"/api/v1/jobs/{APP}/{LATER}/runs"
    clients = _clients(urls[0], token, "POST", path, '{"param": "x", "in": "300d"}')
    later = _Measured(apis[0], clients, seconds)
    ratio = f"{later.load.per_second / view.load.per_second:.2f} of a bare view"
    yield _row("runs planned, one a call", later, ratio, TRIGGERS_GOAL)
    yield _batches(apis[0], AsyncClient(urls[0], token), seconds)
    acting(stack.database, stack.clock.now_ms).jobs.delete([later_id])  # with its planned runs
    per_second = 10 if quick else 50
    before = lateness_spread(stack, per_second=per_second, seconds=seconds)
    gives_way = _serve(stack, "api-that-gives-way")
    with asked_meanwhile(_url(gives_way), token, f"/api/v1/runs/{run_id}", CLIENTS):
        cpu.give_way(gives_way.processes()[0].pid, API_NICE)
        during = lateness_spread(stack, per_second=per_second, seconds=seconds)
    yield Row("lateness without calls", f"p50 {before.p50:.0f} ms, p99 {before.p99:.0f} ms")
    measured = f"p50 {during.p50:.0f} ms, p99 {during.p99:.0f} ms"
    yield Row(
        "lateness beside reads", measured, f"p99 {during.p99 / max(1, before.p99):.2f}", "1.10"
    )

    for count in (10,) if quick else WAITERS:
        yield _waiting(stack, count, urls, token, QUICK_WAIT_MS if quick else WAIT_MS)


def _read(database: Database, run_id: int) -> None:
    database.read(
        lambda session: (recent.run(session, run_id, None), ledger.of_run(session, run_id))
    )


def _waiting(stack: Stack, count: int, urls: Sequence[str], token: str, wait_ms: int) -> Row:
    """Let many clients wait for one run; return how soon after its end they know."""
    [held] = stack.apply([JobSpec(name=f"held-{count}", app=APP, handler="noop")])
    later = stack.clock.now_ms() + wait_ms
    stack.plan([held], 1, due_at=later)
    run_id = int(str(stack.rows([held], Run.id)[0][0]))
    known: list[float] = []
    asked = itertools.count()

    def wait(url: str) -> None:
        connection = Connection(url, token)
        while True:
            next(asked)
            try:
                _, answer = connection.ask("GET", f"/api/v1/runs/{run_id}", "Prefer: wait=30\r\n")
            except OSError:
                connection.close()
                time.sleep(1)
                continue
            if b'"is_over":true' in answer:
                known.append(time.time() * 1000)
                connection.close()
                return
            if b"preference-applied" not in answer.lower():
                # A client that was not held frees its connection for others.
                connection.close()
                time.sleep(1)

    together([lambda url=urls[n % PROCESSES]: wait(url) for n in range(count)])  # type: ignore[misc]
    [(finished_at,)] = stack.rows([held], Run.finished_at)
    late = sorted(at - int(str(finished_at)) for at in known)
    p99 = statistics.quantiles(late, n=100, method="inclusive")[-1]
    words = f"p50 {statistics.median(late):,.0f} ms, p99 {p99:,.0f} ms"
    what = f"{count:,} clients wait on {PROCESSES} processes: they know after"
    return Row(what, words, f"{next(asked)} requests")


def _batches(api: Service, client: AsyncClient, seconds: float) -> Row:
    """Return how many runs at times of their own an AsyncClient plans, BATCH in a call."""
    batch = [Trigger(param="x", after="300d")] * BATCH

    async def plan() -> int:
        end_at = time.perf_counter() + seconds

        async def one_after_another() -> int:
            count = 0
            while time.perf_counter() < end_at:
                count += len(await client.trigger_all(f"{APP}/{LATER}", batch))
            return count

        async with client:
            return sum(await asyncio.gather(*(one_after_another() for _ in range(BATCHES))))

    pid = api.processes()[0].pid
    began, before = time.perf_counter(), cpu.own(pid)
    planned = asyncio.run(plan())
    rate = planned / (time.perf_counter() - began)
    each_ms = (cpu.own(pid) - before) * 1_000 / planned
    words = f"{rate:,.0f} runs/s, {each_ms:.2f} ms of processor each"
    return Row(f"runs planned by AsyncClient, {BATCH} in a call", words, "", "1,000/s")


def _direct(seconds: float, call: Callable[[], object]) -> float:
    """Return how many calls per second one thread makes."""
    end_at, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end_at:
        call()
        count += 1
    return count / seconds


def _clients(
    url: str, token: str, method: str, path: str, json: str = ""
) -> list[Callable[[], int]]:
    made = [Connection(url, token) for _ in range(CLIENTS)]
    return [lambda one=one: one.ask(method, path, json=json)[0] for one in made]  # type: ignore[misc]


class _Measured:
    """What clients got from a server, and its processor time per call."""

    def __init__(
        self, server: Service, clients: Sequence[Callable[[], int]], seconds: float
    ) -> None:
        pid = server.processes()[0].pid
        before = cpu.own(pid)
        self.load: Load = load(clients, seconds)
        self.cpu_ms = (cpu.own(pid) - before) * 1000 / self.load.count


def _row(what: str, server: _Measured, ratio: str, goal: int = 0) -> Row:
    got = server.load
    measured = f"{got.per_second:,.0f}/s, p50 {got.p50:.1f} ms, p99 {got.p99:.1f} ms"
    measured += f", {server.cpu_ms:.2f} ms of processor each"
    return Row(what, measured, ratio, f"{goal:,}/s, {P99_GOAL_MS} ms" if goal else "")


def _ratio(got: _Measured, view: _Measured, direct: float) -> str:
    per_second = got.load.per_second
    one = f"{per_second / view.load.per_second:.2f} of a bare view"
    return f"{one}, {per_second / direct:.2f} of direct calls"


def _token(stack: Stack) -> str:
    commands = acting(stack.database, stack.clock.now_ms)
    commands.users.add(OWNER, None, Rights(role=Role.ADMINISTRATOR))
    owner = stack.database.read(lambda session: users.by_name(session, OWNER))
    assert owner is not None
    scopes = (Scope.READ, Scope.TRIGGER)
    return commands.tokens.add(TokenSpec(name="bench", owner_id=owner.id, scopes=scopes))


def _serve(stack: Stack, name: str) -> Service:
    return stack.serve(name, "api", "--api-port", "0", env=RATES)


def _url(api: Service) -> str:
    return _address(api, r"^api: (\S+?)/api/v1$")


def _address(service: Service, pattern: str) -> str:
    def look() -> str:
        assert not service.has_ended, service.last_words()
        found = re.search(pattern, service.last_words(), re.MULTILINE)
        return found[1] if found else ""

    return eventually(look, 60.0)


if __name__ == "__main__":
    sys.exit(main())
