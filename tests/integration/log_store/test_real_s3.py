"""What is tested with a small S3 holds with a full server too."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.log_store.conftest import Rows
from tests.support.cluster import Cluster
from tests.support.versitygw import BUILD_SECONDS, VersityGateway
from warren.admin_web.run_logs import LogReader
from warren.scheduler.log_store.store import StoredLogs, StoreUnavailable
from warren.scheduler.retention.log_removal import GRACE_MS, LogRemoval
from warren.sql.runs import stored_logs

pytestmark = [pytest.mark.release, pytest.mark.timeout(BUILD_SECONDS + 300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[VersityGateway]:
    server = VersityGateway(tmp_path)
    yield server
    server.stop()


def request(method: str, url: str, body: bytes | None) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request(method, f"{parts.path}?{parts.query}", body=body)
    return connection.getresponse().status


def test_an_address_is_good_for_one_file_of_one_length(server: VersityGateway) -> None:
    store = server.store()
    url = store.address("mine/2026-01-01/1.log.gz", 5)

    assert store.check() == "s3://logs/a/prefix can be written, read and deleted from"
    assert request("PUT", url, b"too long") == 403
    assert request("PUT", url.replace("/mine/", "/theirs/"), b"right") == 403
    assert request("GET", url, None) == 403
    assert request("PUT", url, b"right") == 200
    assert server.files() == ["a/prefix/mine/2026-01-01/1.log.gz"]
    assert store.fetch("mine/2026-01-01/1.log.gz", 1, 3) == b"igh"
    assert store.delete(["mine/2026-01-01/1.log.gz", "mine/2026-01-01/2.log.gz"]) == {}
    assert store.size("mine/2026-01-01/1.log.gz") is None


@pytest.mark.parametrize("cluster", ["memory"], indirect=True)
def test_logs_are_stored_read_and_deleted_though_it_was_away(
    cluster: Cluster, server: VersityGateway, rows: Rows
) -> None:
    cluster.scheduler(log_store=server.store())
    cluster.executor(log_text=lambda trigger: f"run {trigger.run_id}\n".encode())
    cluster.wait_online()
    cluster.job("talks", handler="noop")
    rows.wait_stored(cluster.trigger("talks"))

    server.stop()
    run_ids = [cluster.trigger("talks") for _ in range(20)]
    for run_id in run_ids:
        cluster.wait_final(run_id)
    with pytest.raises(StoreUnavailable):
        server.store().check()
    server.start()

    rows.wait_stored(*run_ids)
    reader = LogReader(None, stored=StoredLogs(server.store))
    for run_id in run_ids:
        assert reader.read(rows.source(run_id), 1, limit=9).lines == (f"run {run_id}",)
    now_ms = cluster.now_ms()
    cluster.database.write(lambda session: stored_logs.give_up(session, run_ids, now_ms))
    removal = LogRemoval(node="b", database=cluster.database, store=server.store())
    cluster.schedulers.pop().stop()
    removal.run_round(now_ms + GRACE_MS + 1_000)
    assert len(server.files()) == 1
