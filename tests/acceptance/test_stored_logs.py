"""A log is printed from the log store by the commands that people use, once its file is gone."""

import json
import shutil
from pathlib import Path

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually

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
