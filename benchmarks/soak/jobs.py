"""The jobs of a soak: every kind of job, in as many copies as the rate requires."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.soak import book
from benchmarks.soak.flows import SoakFlow, new_flow
from warren.scheduler.flows.graph import parse
from warren.scheduler.jobs.spec import JobSpec

APP = "soak"
#: The app of executors behind gateways.
REMOTE_APP = "remote"
#: The limit that jobs share.
LIMIT, LIMIT_AT_ONCE = "shared", 3
#: How many backfills a job has at once, how many runs of each, and how far its due times are apart.
BACKFILLS, FILLED_AT_ONCE, FILLED_MS = 2, 3, 20 * 60_000
#: Runs a second of one mix, on three executors.
MIX_RATE = 10.0


@dataclass(frozen=True, slots=True)
class SoakJob:
    """A job and its due times: each multiple of `period_ms`, or 0 if only Warren knows them.

    `flow`: what it is if it is a flow. `is_filled`: whether backfills run it.
    """

    spec: JobSpec
    period_ms: int
    flow: SoakFlow | None = None
    is_filled: bool = False


def jobs(rate: float, book_path: Path, seed: int) -> list[SoakJob]:
    """Return jobs with about `rate` runs a second."""
    copies = max(1, round(rate / MIX_RATE))
    return [
        one
        for number in range(copies)
        for one in (*_mix(number, book_path), *_shared(number), *_flow(number, seed))
    ]


def remote_jobs() -> list[SoakJob]:
    """Return jobs of the executors behind gateways, which take no heed of a handler."""
    return [
        replace(one, spec=replace(one.spec, app=REMOTE_APP))
        for one in (
            *(_every(1, f"remote-{n}", handler="any", route="ROUND") for n in range(4)),
            _every(5, "remote-first", handler="any", route="FAILOVER"),
        )
    ]


def _shared(number: int) -> Iterator[SoakJob]:
    """Yield jobs that share a limit, and one for backfills; they tell if there are too many."""
    for name, weight in (("a", 1), ("b", 1), ("c", 2)):
        param = f"{LIMIT} {LIMIT_AT_ONCE} {weight} 0.4"
        limits = (f"{LIMIT}:{weight}",)
        yield _every(
            5, f"limited-{number}-{name}", handler="soak.share", param=param, limits=limits
        )
    name, at_once = f"filled-{number}", FILLED_AT_ONCE * BACKFILLS
    given: dict[str, Any] = {"param": f"{name} {at_once} 1 0.3", "concurrency": 8}
    minutes = FILLED_MS // 60_000
    given |= {"schedule_kind": "CRON", "schedule_value": f"0 0/{minutes} * * * ?"}
    spec = JobSpec(name=name, app=APP, handler="soak.share", timezone="UTC", **given)
    yield SoakJob(spec, 0, is_filled=True)


def _flow(number: int, seed: int) -> Iterator[SoakJob]:
    """Yield a random flow, behind the jobs of its nodes."""
    one = new_flow(seed, number)
    for node in one.flow.values():
        yield SoakJob(JobSpec(name=node.job, app=APP, handler="soak.node", concurrency=4), 0)
    graph = parse({node.name: node.said() for node in one.flow.values()})
    flow = _every(10, one.name, flow=graph, retries=one.retries, concurrency=3)
    yield replace(flow, flow=one)


def _mix(number: int, book_path: Path) -> Iterator[SoakJob]:
    late = {"misfire": "DO_NOTHING"} if number % 2 else {"misfire": "FIRE_ONCE_NOW"}
    routes = ("", "ROUND", "FAILOVER", "LEAST_LOADED", "BUSYOVER")
    for index, route in enumerate(routes):
        yield _every(1, f"quick-{number}-{index}", handler="soak.sleep", route=route, **late)
    again = {"delivery": "AT_LEAST_ONCE", "retries": 3, "retry_delay": 1}
    yield _every(2, f"again-{number}", handler="soak.sleep", param="0.2", **again)
    yield _every(2, f"slow-{number}", handler="soak.sleep", param="1.2", late_limit=5)
    many = {"block": "COVER_EARLY", "late_limit": 5}
    yield _every(5, f"covered-{number}", handler="soak.sleep", param="7", **many)
    yield _every(1, f"parallel-{number}", handler="soak.sleep", param="1.5", concurrency=3)
    yield _every(5, f"flaky-{number}", handler="soak.flaky", param="2", retries=3, **late)
    yield _every(5, f"failing-{number}", handler="soak.fail", retries=1, retry_delay=1)
    yield _every(10, f"overlong-{number}", handler="soak.sleep", param="60", timeout=1)
    yield _every(5, f"broadcast-{number}", handler="soak.sleep", route="SHARDING_BROADCAST")
    source = f"#!/bin/sh\n{book.script(book_path)}sleep 0.1\n"
    script: dict[str, Any] = {"script_language": "shell", "script_source": source}
    yield _every(5, f"script-{number}", **script)
    delay: dict[str, Any] = {"schedule_kind": "FIX_DELAY", "schedule_value": "1"}
    spec: dict[str, Any] = {"handler": "soak.sleep", "app": APP, "enabled": True, "param": "0.1"}
    yield SoakJob(JobSpec(name=f"delayed-{number}", **delay, **spec), 0)


def _every(seconds: int, name: str, **fields: Any) -> SoakJob:
    cron = f"0/{seconds} * * * * ?"
    given: dict[str, Any] = {"name": name, "app": APP, "enabled": True, "schedule_kind": "CRON"}
    return SoakJob(JobSpec(**given, schedule_value=cron, **fields), seconds * 1_000)
