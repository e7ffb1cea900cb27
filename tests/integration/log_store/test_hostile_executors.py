"""An executor that somebody has taken over reaches the logs of its own app only."""

import http.client
from urllib.parse import urlsplit

import pytest

from tests.integration.log_store.conftest import Rows
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tests.support.s3_server import S3Server
from warren.broker.messages import LogEnd, LogPlace, LogPlaces, LogsStored, LogToStore, StoreLogs
from warren.executor.agent import Executor
from warren.scheduler.completion.end import identity_of
from warren.scheduler.completion.log_places import NO_RUN, TOO_LARGE

pytestmark = pytest.mark.parametrize("cluster", ["memory"], indirect=True)


class Hostile:
    """An executor whose code sends what it likes, with its app's key."""

    def __init__(self, executor: Executor) -> None:
        core = executor._core
        assert core is not None
        self._sender = core._roles.sender
        self.got: list[LogPlaces] = []
        keeper = core._active_runs.log_keeper
        assert keeper is not None
        keeper.take = self.got.append  # type: ignore[method-assign]

    def ask(self, run_id: int, identity: int, packed: int = 100, **others: str) -> LogPlace:
        before = len(self.got)
        who = self._sender.identity
        names = {"app": who.app, "address": who.address, "boot_id": who.boot_id} | others
        log = LogToStore(run_id=run_id, identity=identity, packed=packed)
        self._sender.send(StoreLogs(**names, logs=(log,)), valid_seconds=10)
        eventually(lambda: len(self.got) > before)
        [place] = self.got[-1].places
        return place

    def tell(self, run_id: int, identity: int, **facts: object) -> None:
        who = self._sender.identity
        end = LogEnd(run_id=run_id, identity=identity, **facts)  # type: ignore[arg-type]
        message = LogsStored(app=who.app, address=who.address, boot_id=who.boot_id, logs=(end,))
        self._sender.send(message, valid_seconds=10)


def request(method: str, url: str, body: bytes = b"") -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request(method, f"{parts.path}?{parts.query}", body=body or None)
    return connection.getresponse().status


@pytest.fixture
def hostile(cluster: Cluster, s3: S3Server) -> Hostile:
    cluster.scheduler(log_store=s3.store())
    cluster.executor("one", app="mine")
    cluster.executor("two", app="theirs")
    eventually(lambda: cluster.is_online("one", app="mine"))
    eventually(lambda: cluster.is_online("two", app="theirs"))
    cluster.job("my-job", handler="noop", app="mine")
    cluster.job("their-job", handler="noop", app="theirs")
    return Hostile(cluster.executors[0])


def ran(cluster: Cluster, job: str) -> tuple[int, int]:
    """Return the id and the identity of a run that has ended."""
    run_id = cluster.trigger(job)
    cluster.wait_final(run_id)
    return run_id, identity_of(cluster.run(run_id))  # type: ignore[arg-type]


def test_it_gets_no_place_for_another_apps_run(
    cluster: Cluster, hostile: Hostile, rows: Rows
) -> None:
    theirs = ran(cluster, "their-job")

    place = hostile.ask(*theirs)

    assert (place.url, place.key, place.why) == ("", "", NO_RUN)
    assert rows.find(theirs[0]) is None


def test_a_guessed_identity_or_another_address_gives_no_place(
    cluster: Cluster, hostile: Hostile
) -> None:
    run_id, identity = ran(cluster, "my-job")

    assert hostile.ask(run_id, identity + 1).why == NO_RUN
    assert hostile.ask(run_id + 1_000, identity).why == NO_RUN
    assert hostile.ask(run_id, identity, packed=10**9).why == TOO_LARGE


def test_its_address_is_good_for_one_file_of_one_length_and_for_nothing_else(
    cluster: Cluster, hostile: Hostile, s3: S3Server
) -> None:
    run_id, identity = ran(cluster, "my-job")
    theirs, _ = ran(cluster, "their-job")

    url = hostile.ask(run_id, identity, packed=5).url

    other = url.replace("/mine/", "/theirs/").replace(f"/{run_id}-", f"/{theirs}-")
    assert request("PUT", other, b"wrong") == 403
    assert request("PUT", url, b"too long") == 403
    assert request("GET", url) == 403
    assert request("DELETE", url) == 403
    assert s3.objects == {}
    assert request("PUT", url, b"right") == 200
    assert [key.split("/")[2] for key in s3.objects] == ["mine"]


def test_what_it_says_of_another_apps_log_changes_nothing(
    cluster: Cluster, hostile: Hostile, rows: Rows
) -> None:
    mine, theirs = ran(cluster, "my-job"), ran(cluster, "their-job")
    hostile.ask(*mine)

    hostile.tell(*theirs, dropped="ha")
    hostile.tell(*mine, size=7, packed=5)

    rows.wait_stored(mine[0])
    assert rows.find(theirs[0]) is None


def test_a_text_that_no_database_takes_holds_up_no_report(
    cluster: Cluster, hostile: Hostile, rows: Rows
) -> None:
    mine = ran(cluster, "my-job")

    hostile.tell(*mine, dropped="a NUL \x00 and more")
    after, _ = ran(cluster, "my-job")

    assert cluster.run(after).status == "SUCCEEDED"
    row = eventually(lambda: rows.find(mine[0]))
    assert row.fault == "a NUL and more"
