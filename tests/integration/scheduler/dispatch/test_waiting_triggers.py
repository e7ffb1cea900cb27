"""Triggers of one job at the same time: no more runs wait than may."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.acting import acting
from tests.support.cluster import Cluster
from warren.scheduler.problems import Code, Problem

pytestmark = pytest.mark.parametrize("cluster", ["real"], indirect=True)


def test_of_triggers_at_the_same_time_as_many_wait_as_may(cluster: Cluster) -> None:
    cluster.job("load", max_waiting=3)
    [job] = cluster.jobs(name="load")

    def trigger(_: int) -> Code | None:
        try:
            acting(cluster.database, cluster.now_ms).runs.trigger(job.id)
        except Problem as problem:
            return problem.code
        return None

    with ThreadPoolExecutor(8) as pool:
        refused = list(filter(None, pool.map(trigger, range(24))))

    assert len(cluster.runs()) == 3
    assert refused == [Code.TOO_MANY_WAITING] * 21
