"""Runs a cluster under faults and judges it: `python -m benchmarks.soak --minutes 10 --seed 7`."""

import argparse
import logging
import math
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import structlog
from sqlalchemy import select

from benchmarks.soak.cluster import SoakCluster
from benchmarks.soak.evidence import gather, open_backfills, open_runs
from benchmarks.soak.faults import Faults, Undo
from benchmarks.soak.jobs import (
    BACKFILLS,
    FILLED_AT_ONCE,
    FILLED_MS,
    LIMIT,
    LIMIT_AT_ONCE,
    SoakJob,
    jobs,
    remote_jobs,
)
from benchmarks.soak.plan import Fault, plan
from benchmarks.soak.services import Services, services
from benchmarks.soak.topology import TOPOLOGIES
from benchmarks.soak.verdict import Calendar, Verdict, judge
from tests.support.acting import acting
from tests.support.eventually import eventually
from warren.scheduler.backfills.draft import BackfillRequest
from warren.sql.instants import DAY_MS
from warren.sql.models import Job

FAULT_SECONDS = 10.0
#: How long after the last fault the cluster runs on, so that schedulers plan again.
CALM_SECONDS = 25.0
#: How long the runs that are open then may take: the longest time-outs of Warren, and some.
DRAIN_SECONDS = 240.0
#: How long services may take to be whole again after the last fault.
WHOLE_SECONDS = 60.0
#: Due times so close to the stop may not be planned.
PLANNING_MS = 2_000
#: How often memory is measured.
SAMPLE_SECONDS = 5.0
#: Most lines printed for one kind of mistake.
EXAMPLES = 20


def main() -> int:
    """Run the soak, print its verdict; return 1 if anything that must be zero is not."""
    arguments = _arguments()
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    seconds = arguments.minutes * 60.0
    topology = TOPOLOGIES[arguments.topology]
    rate = arguments.rate or topology.rate
    faults = plan(arguments.seed, seconds, arguments.fault_seconds, topology.kinds)
    folder = Path(tempfile.mkdtemp(prefix="warren-soak-"))
    with services(folder, topology) as own:
        print(f"{_facts(own)}; {rate:.0f} runs/s; {arguments.topology}", flush=True)
        print(f"seed {arguments.seed}: {len(faults)} faults in {seconds:.0f} s", flush=True)
        cluster = SoakCluster(own, slots=arguments.slots)
        try:
            cluster.start()
            mix = jobs(rate, cluster.book_path, arguments.seed)
            if topology.has_gateways:
                mix += remote_jobs()
            verdict = _soak(cluster, mix, faults, seconds)
        finally:
            cluster.close()
    for name, wrong in verdict.wrong.items():
        for line in wrong[:EXAMPLES]:
            print(f"{name}: {line}", flush=True)
    for why, count in verdict.given_up.most_common():
        print(f"LOST: {count} {why}", flush=True)
    if verdict.is_clean:
        shutil.rmtree(folder)
    else:
        print(f"all logs are in {folder}", flush=True)
    print(verdict, flush=True)
    return 0 if verdict.is_clean else 1


def _soak(cluster: SoakCluster, mix: list[SoakJob], faults: list[Fault], seconds: float) -> Verdict:
    cluster.deployment.commands.limit(LIMIT, at_once=LIMIT_AT_ONCE)
    cluster.deployment.jobs(*(one.spec for one in mix))
    filled = _fill(cluster, mix, seconds)
    _suffer(cluster, faults, seconds)
    for _ in range(int(CALM_SECONDS)):
        cluster.supervise()
        time.sleep(1.0)
    stopped_ms = cluster.deployment.now_ms() - PLANNING_MS
    cluster.deployment.stop_jobs()
    try:
        eventually(lambda: _is_over(cluster), DRAIN_SECONDS, every=1.0)
    except AssertionError:
        print("runs are still open", flush=True)
    time.sleep(1.0)  # the processes of the last runs end
    return judge(gather(cluster, mix, stopped_ms, filled))


def _fill(cluster: SoakCluster, mix: list[SoakJob], seconds: float) -> Calendar:
    """Let jobs run for the last days, one for each five minutes of the soak; return due times."""
    today = cluster.deployment.now_ms() // DAY_MS
    first = today - math.ceil(seconds / 300)
    days = {"from_date": _day(first), "to_date": _day(today - 1)}
    request = BackfillRequest(**days, at_once=FILLED_AT_ONCE)
    database = cluster.deployment.database
    wanted = select(Job.id).where(Job.name.in_(one.spec.name for one in mix if one.is_filled))
    for job_id in database.read(lambda session: list(session.execute(wanted).scalars())):
        for _ in range(BACKFILLS):
            acting(database, who="soak").backfills.make(job_id, request)
    return Calendar(0, FILLED_MS, first * DAY_MS, today * DAY_MS)


def _day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


def _is_over(cluster: SoakCluster) -> bool:
    cluster.supervise()
    return open_runs(cluster) == 0 and open_backfills(cluster) == 0


def _suffer(cluster: SoakCluster, faults: list[Fault], seconds: float) -> None:
    """Begin each fault at its time, or once it may begin, and end it."""
    makers, begun = Faults(cluster), time.monotonic()
    waiting, undone, sampled_at = list(faults), list[tuple[float, Undo]](), 0.0
    while (now := time.monotonic() - begun) < seconds:
        due = (one for one in waiting if now >= one.at_seconds)
        if fault := next(filter(makers.may_begin, due), None):
            waiting.remove(fault)
            print(fault, flush=True)
            undo = makers.begin(fault)
            undone.append((time.monotonic() - begun + fault.seconds, undo))
        for end in [one for one in undone if now >= one[0]]:
            undone.remove(end)
            end[1]()
        if now - sampled_at >= SAMPLE_SECONDS:
            sampled_at = now
            cluster.sample_memory()
        cluster.supervise()
        time.sleep(0.2)
    for _, undo in undone:
        undo()
    for fault in waiting:
        print(f"there was no time for: {fault}", flush=True)
    eventually(cluster.services.are_whole, WHOLE_SECONDS, every=0.5)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="default 10")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--topology", choices=TOPOLOGIES, default="single", help="default single")
    parser.add_argument(
        "--rate", type=float, help="runs a second; default 40, or 10 on several nodes"
    )
    parser.add_argument("--slots", type=int, default=16, help="of each executor; default 16")
    parser.add_argument(
        "--fault-seconds", type=float, default=FAULT_SECONDS, help="from fault to fault; default 10"
    )
    return parser.parse_args()


def _facts(own: Services) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{own.facts()}; {platform.machine()}, {memory:.0f} GB, Linux {platform.release()}"


if __name__ == "__main__":
    sys.exit(main())
