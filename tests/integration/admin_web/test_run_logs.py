"""Run logs in the console, asked of a real executor over the broker."""

import json
import re
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.cluster import APP, SECRET, Cluster, on_memory
from tests.support.console import Clock, Visit, add_user, make_app, signed_in
from tests.support.eventually import eventually
from tests.support.fake_executor import FakeExecutor
from warren.admin_web.services import RunLogLimits
from warren.admin_web.serving.web_process import ConsoleConnections
from warren.broker.signing import ClusterKeys
from warren.sql.accounts.users import Role

pytestmark = on_memory

GIGABYTE = 10**9

PRINTER = """
import sys, time
from pathlib import Path
from warren import job, JobContext


@job("printer")
def printer(context: JobContext) -> str:
    until = Path(context.param)
    number = 0
    while not until.exists():
        number += 1
        print("line", number, flush=True)
        time.sleep(0.02)
    return "printed"


@job("wild")
def wild(context: JobContext) -> str:
    print("<script>alert(1)</script> &amp; {{7*7}}")
    print("\\x1b[31mred\\x1b[0m")
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\\xff\\xfe\\x00binary\\n")
    print("x" * 40_000)
    print("\\u202eevil")
    return "wild"


@job("long")
def long(context: JobContext) -> str:
    for number in range(1, 1_301):
        print("record", number)
    return "long"
"""


@pytest.fixture
def limits() -> RunLogLimits:
    """The limits of pages and downloads; a test sets them by `parametrize`."""
    return RunLogLimits()


@pytest.fixture
def console(cluster: Cluster, limits: RunLogLimits) -> Iterator[Flask]:
    """A console beside a scheduler; its executor is what a test makes."""
    cluster.handlers.write_text(PRINTER)
    cluster.scheduler()
    transport = cluster.make_transport()
    connections = ConsoleConnections(
        transport, cluster.database, ClusterKeys(SECRET), cluster.now_ms
    )
    clock = Clock()
    app = make_app(
        cluster.database,
        clock,
        now_ms=cluster.now_ms,
        requester=connections.requester,
        run_logs=limits,
    )
    add_user(cluster.database, "admin", Role.ADMINISTRATOR)
    yield app
    connections.close()
    transport.close()


@pytest.fixture
def visit(console: Flask) -> Visit:
    return signed_in(console, "admin")


def run(cluster: Cluster, handler: str, param: str = "", *, wait: bool = True) -> int:
    """Trigger a job whose executor has processes; return the run."""
    if not cluster.executors:
        cluster.executor(processes=True)
        cluster.wait_online()
    cluster.job(handler, handler=handler)
    run_id = cluster.trigger(handler, param)
    if wait:
        assert cluster.wait_final(run_id).status == "SUCCEEDED"
    return run_id


def ask(visit: Visit, run_id: int, line: int = 1) -> dict[str, Any]:
    found = json.loads(visit.client.get(f"/runs/{run_id}/log/lines?from={line}").text)
    assert isinstance(found, dict)
    return found


def test_a_log_grows_line_by_line_and_ends_with_its_run(
    cluster: Cluster, visit: Visit, tmp_path: Path
) -> None:
    run_id = run(cluster, "printer", str(tmp_path / "stop"), wait=False)
    cluster.wait_status(run_id, "RUNNING")
    seen: list[str] = []

    def follow() -> dict[str, Any]:
        found = ask(visit, run_id, len(seen) + 1)
        assert found["answer"] == "LINES"
        assert found["first"] == len(seen) + 1
        seen.extend(found["lines"])
        return found

    eventually(lambda: follow() and len(seen) > 5)
    assert follow()["is_open"]
    (tmp_path / "stop").touch()
    eventually(lambda: not (last := follow())["is_open"] and last["is_end"])

    assert seen == [f"line {number}" for number in range(1, len(seen) + 1)]
    whole = visit.client.get(f"/runs/{run_id}/log/download").text
    assert whole.split("\n")[: len(seen)] == seen


@pytest.mark.parametrize("limits", [RunLogLimits(page_lines=3)], ids=["3-lines"])
def test_an_open_log_begins_at_its_end_and_a_finished_one_at_its_beginning(
    cluster: Cluster, visit: Visit, tmp_path: Path
) -> None:
    run_id = run(cluster, "printer", str(tmp_path / "stop"), wait=False)

    # Any line behind the ninth: those of a slow page may have gone on from the tenth.
    eventually(lambda: re.search(r'id="L\d\d', visit.get(f"/runs/{run_id}/log").text))
    open_page = visit.get(f"/runs/{run_id}/log").text
    (tmp_path / "stop").touch()
    cluster.wait_final(run_id)
    page = visit.get(f"/runs/{run_id}/log").text

    assert 'id="L1"' not in open_page
    assert "Earlier lines" in open_page
    assert [f'id="L{number}"' in page for number in (1, 3, 4)] == [True, True, False]


def test_without_a_script_there_are_pages_to_turn(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")

    first = visit.get(f"/runs/{run_id}/log").text
    second = visit.get(f"/runs/{run_id}/log?line=501").text
    last = visit.get(f"/runs/{run_id}/log?line=1001").text

    assert ("record 500" in first, "record 501<" in first) == (True, False)
    assert f"/runs/{run_id}/log?line=501" in first
    assert "record 501" in second
    assert "record 1300" in last
    assert f"/runs/{run_id}/log?line=501" in last
    assert 'id="log-further"' in last
    assert "End of log." in last


def test_lines_that_cannot_be_are_no_error(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")

    for line in ("-1", "0", "x", "1e3", "10000000000000000000", "²", "1;2"):
        assert visit.get(f"/runs/{run_id}/log?line={line}").status_code == 200, line
        assert visit.get(f"/runs/{run_id}/log/lines?from={line}").status_code == 200, line
    for path in ("../../etc/passwd", "%2e%2e%2f1", "1%00"):
        assert visit.get(f"/runs/{path}/log").status_code == 404


def test_whatever_was_printed_is_only_text(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "wild")

    page = visit.get(f"/runs/{run_id}/log").text
    lines = ask(visit, run_id)["lines"]

    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;amp; {{7*7}}" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert lines[0] == "<script>alert(1)</script> &amp; {{7*7}}"
    assert lines[1] == [["ansi-red", "red"]]
    assert "\ufffd" in lines[2]
    assert len(lines[3]) < 20_000
    assert lines[3].endswith("[line cut]")
    answer = visit.client.get(f"/runs/{run_id}/log/lines")
    assert answer.content_type == "application/json"
    file = visit.client.get(f"/runs/{run_id}/log/download")
    assert file.content_type == "text/plain; charset=utf-8"
    assert file.headers["Content-Disposition"] == f'attachment; filename="run-{run_id}.log"'
    assert file.headers["X-Content-Type-Options"] == "nosniff"


def test_an_address_of_the_browsers_is_never_asked(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")
    other = FakeExecutor(cluster, "other").join()
    heard = len(other.heard)

    visit.get(
        f"/runs/{run_id}/log/lines?address=other&executorAddress=other&boot_id={other.boot_id}"
    )

    assert [type(message).__name__ for message in other.heard[heard:]].count("ReadLog") == 0


def test_an_executor_that_is_gone_leaves_the_end_of_the_log(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")
    [executor] = cluster.executors
    executor.stop(hurry=True)
    assert executor.join(60)
    cluster.executors.clear()

    page = visit.get(f"/runs/{run_id}/log").text
    file = visit.client.get(f"/runs/{run_id}/log/download").text

    assert "The executor is offline or not responding" in page
    assert "record 1300" in page
    assert "record 2<" not in page
    assert ask(visit, run_id)["answer"] == "SILENT"
    assert file.startswith("[only the end of the log was kept")
    assert file.endswith("record 1300\n")


def test_a_restarted_executor_still_gives_its_logs(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")
    [executor] = cluster.executors
    executor.stop(hurry=True)
    assert executor.join(60)
    cluster.executors.clear()
    fresh = cluster.executor(processes=True)
    eventually(
        lambda: all(
            node.roster.routable(APP).get("one") == fresh.identity.boot_id
            for node in cluster.schedulers
        ),
    )

    eventually(lambda: ask(visit, run_id)["answer"] == "LINES")

    assert "record 1<" in visit.get(f"/runs/{run_id}/log").text


def test_a_log_that_was_deleted_leaves_its_end(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")
    [log] = cluster.folder.glob(f"logs/*/{run_id}.log")
    log.unlink()

    page = visit.get(f"/runs/{run_id}/log").text

    assert "The executor no longer has this log" in page
    assert "record 1300" in page


def test_a_link_in_a_logs_place_leads_nowhere(
    cluster: Cluster, visit: Visit, tmp_path: Path
) -> None:
    run_id = run(cluster, "long")
    [log] = cluster.folder.glob(f"logs/*/{run_id}.log")
    (tmp_path / "elsewhere").write_text("root:x:0:0\n")
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")

    pages = [
        visit.client.get(f"/runs/{run_id}/log{tail}").text
        for tail in ("", "?line=1", "/lines", "/download")
    ]

    assert [page for page in pages if "root:x" in page] == []


def test_a_log_of_a_gigabyte_takes_no_memory(cluster: Cluster, visit: Visit) -> None:
    """Most of it is a hole, one line of NULs; executor and console are both in this process."""
    run_id = run(cluster, "long")
    [log] = cluster.folder.glob(f"logs/*/{run_id}.log")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.truncate(GIGABYTE)
        file.seek(GIGABYTE)
        file.write(b"\nthe end\n")
    assert log.stat().st_size > GIGABYTE > 1_000 * size
    before_kb = resident_kb()

    first = visit.get(f"/runs/{run_id}/log").text
    beyond = visit.get(f"/runs/{run_id}/log?line=1301").status_code
    lines = ask(visit, run_id, 1_290)
    far = ask(visit, run_id, 10**12)
    file_size = len(visit.client.get(f"/runs/{run_id}/log/download").data)

    assert "record 500" in first
    assert beyond == 200
    assert lines["answer"] in ("LINES", "SILENT", "BUSY")
    assert far["lines"] == []
    assert file_size < RunLogLimits().file_bytes + 1_000_000
    assert resident_kb() - before_kb < 60_000


def resident_kb() -> int:
    """Return the most memory that this process has had so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_frozen_executor_keeps_nobody_from_other_pages(cluster: Cluster, console: Flask) -> None:
    desk = FakeExecutor(cluster).join()
    desk.answers = False
    cluster.job("frozen")
    run_id = cluster.trigger("frozen")
    eventually(lambda: cluster.run(run_id).boot_id)
    visits = [signed_in(console, "admin") for _ in range(4)]
    answers: list[str] = []

    threads = [
        threading.Thread(target=lambda one=one: answers.append(ask(one, run_id)["answer"]))
        for one in visits
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: "BUSY" in answers)
    assert visits[0].client.get("/runs").status_code == 200
    for thread in threads:
        thread.join(30)

    assert sorted(set(answers)) == ["BUSY", "SILENT"]
    assert ask(visits[0], run_id)["answer"] == "SILENT"


def test_one_file_at_a_time_for_each_user(cluster: Cluster, visit: Visit, console: Flask) -> None:
    run_id = run(cluster, "long")
    path = f"/runs/{run_id}/log/download"
    add_user(cluster.database, "second", Role.ADMINISTRATOR)

    first = visit.client.get(path, buffered=False)
    again = signed_in(console, "admin").client.get(path)
    other = signed_in(console, "second").client.get(path)
    first.close()
    later = visit.client.get(path)

    assert (again.status_code, again.headers["Retry-After"]) == (429, "5")
    assert (other.status_code, other.text.count("record")) == (200, 1_300)
    assert (later.status_code, later.text.count("record")) == (200, 1_300)


@pytest.mark.parametrize("limits", [RunLogLimits(piece_lines=100, file_bytes=3_000)], ids=["3-kB"])
def test_a_file_has_no_more_than_its_bound(cluster: Cluster, visit: Visit) -> None:
    run_id = run(cluster, "long")

    size = len(visit.client.get(f"/runs/{run_id}/log/download").data)

    assert 3_000 <= size < 5_000
