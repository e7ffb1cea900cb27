"""Executors that a test kills in the middle of an answer."""

from tests.support.cluster import Cluster, on_memory

pytestmark = on_memory


def test_an_executor_that_answers_while_it_is_killed_ends(cluster: Cluster) -> None:
    cluster.scheduler()
    executor = cluster.executor()
    cluster.wait_online()
    publisher = cluster.cables[id(executor)].publisher("answers")

    cluster.cables[id(executor)].die()
    cluster.loops[id(executor)].call_soon_threadsafe(publisher.publish, [])

    cluster.kill(executor)

    assert not executor.is_alive
