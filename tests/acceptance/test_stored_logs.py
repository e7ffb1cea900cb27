"""A log is printed from the log store by the commands that people use, once its file is gone."""

import base64
import io
import json
import random
import shutil
from pathlib import Path

from sqlalchemy import insert

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually
from tests.support.stored_rows import Rows
from warren.broker.log_blocks import pack
from warren.scheduler.completion.end import identity_of
from warren.scheduler.log_store.folder_store import FolderStore
from warren.sql.listings import recent
from warren.sql.models import StoredLog

HANDLERS = """
from warren import JobContext, job


@job("hello")
def hello(context: JobContext) -> None:
    for number in range(1_500):
        print("line", number, context.param)
"""
JOBS = """
apps:
  - {name: demo, title: Demo}
jobs:
  - {name: greet, app: demo, handler: hello, schedule: none}
"""


def test_a_log_outlives_its_executor(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    store = tmp_path / "store"
    env = {"WARREN_PORT": "0", "WARREN_LOG_STORE": f"file://{store}", "WARREN_LOG_STDOUT": "json"}
    arguments = ("up", "--jobs", "handlers.py", "--apply", "jobs.yaml", "--app", "demo")

    with Command(*arguments, folder=tmp_path, env=env) as up:
        up.wait_for("run logs")
        trigger = ("jobs", "trigger", "greet", "--param", "hi", "--wait")
        assert run_warren(*trigger, folder=tmp_path, env=env).returncode == 0
        eventually(lambda: list(store.glob("demo/*/*.log.gz")))
        up.wait_for('"line":"line 1499 hi"')
    shutil.rmtree(tmp_path / ".warren/logs")

    log = run_warren("runs", "log", "1", folder=tmp_path, env=env)
    checked = run_warren("check", folder=tmp_path, env=env)

    assert log.stdout.splitlines() == [f"line {number} hi" for number in range(1_500)]
    assert f"ok     log store: {store} can be written, read and deleted from" in checked.stdout
    printed = [line for line in up.text().splitlines() if line.startswith('{"at"')]
    assert json.loads(printed[0]) | {"at": "", "address": ""} == {
        "at": "",
        "app": "demo",
        "address": "",
        "job": 1,
        "handler": "hello",
        "run": 1,
        "attempt": 0,
        "shard": "0/1",
        "line": "line 0 hi",
    }


def test_a_log_whose_rest_cannot_be_read_ends_with_an_error(
    tmp_path: Path, sqlite_schema_url: str
) -> None:
    rows, store = Rows(sqlite_schema_url), FolderStore(tmp_path / "store")
    ended = {"status": "SUCCEEDED", "address": "gone-1", "boot_id": "b00t"}
    run_id = rows.run(rows.job("talker"), 1_800_000_000_000, **ended)
    identity = identity_of(rows.database.read(lambda session: recent.run(session, run_id, None)))
    row = {"run_id": run_id, "identity": identity, "key": "reports/log", "state": "STORED"}
    rows.database.write(
        lambda session: session.execute(
            insert(StoredLog).values(row | {"size": 1, "packed": 1, "parts": 0, "told_at": 0})
        )
    )
    store.prepare()
    text = base64.encodebytes(random.Random(7).randbytes(3_000_000))  # cannot be packed well
    file = bytearray()
    pack(io.BytesIO(text), file.extend, size=len(text))
    file[2_000_000:2_000_100] = bytes(100)
    (store.folder / "reports").mkdir()
    (store.folder / "reports/log").write_bytes(file)
    env = {"WARREN_DATABASE_URL": sqlite_schema_url, "WARREN_LOG_STORE": str(store.folder)}

    done = run_warren("runs", "log", str(run_id), folder=tmp_path, env=env)

    assert text.decode().startswith(done.stdout)
    assert len(done.stdout) > 1_000_000
    assert f"error: the rest of the log of run {run_id} cannot be read now" in done.stderr
    assert done.returncode == 1
