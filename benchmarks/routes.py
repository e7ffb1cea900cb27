"""Measures how quickly each route decides, in this process and without services."""

import json
import time
from random import Random

from warren.scheduler.dispatch.decisions import shard_choices
from warren.scheduler.routing import routes
from warren.scheduler.routing.routes import ProbeAnswer, Route, RouteRequest

#: Jobs whose runs are routed in turn, each with its own routing memory.
JOBS = 100
_SILENT = ProbeAnswer(ok=False, words="no answer within 1 s", heard=False)
_THERE = ProbeAnswer(ok=True, words="it answers")


def decisions(route: Route, executors: int, count: int) -> float:
    """Return routing decisions per second on one core.

    A route's memory is read from and written to JSON, as for its table. Of probed executors, all
    but the last are silent. One decision of a broadcast covers all shards.
    """
    addresses = tuple(f"executor-{number:03}" for number in range(executors))
    answers = dict.fromkeys(addresses, _SILENT) | {addresses[-1]: _THERE}
    probes = answers if routes.BUILT_IN[route].probe else None
    remembered: dict[int, str] = {}
    chance = Random(1)
    began = time.perf_counter()
    for number in range(count):
        job_id = number % JOBS
        memory = json.loads(remembered[job_id]) if job_id in remembered else None
        request = RouteRequest(job_id=job_id, addresses=addresses, memory=memory, probes=probes)
        if route == Route.SHARDING_BROADCAST:
            assert len(shard_choices(request)) == executors
            continue
        choice = routes.choose(route, request, chance)
        assert choice.address in addresses
        if choice.memory is not None:
            remembered[job_id] = json.dumps(choice.memory)
    return count / (time.perf_counter() - began)
