"""`warren up --reload`: what is saved is what runs next; what is broken is told."""

from pathlib import Path

from tests.support.command import Command, run_warren
from tests.support.eventually import eventually

SOURCE = """
import pathlib, time
from warren import job

@job("say")
def say(context):
    return "first"

@job("wait")
def wait(context):
    pathlib.Path("begun").touch()
    while not pathlib.Path("release").exists():
        time.sleep(0.01)
    return "first"
"""
JOBS = """
apps: [{name: home}]
jobs:
  - {name: say, app: home, handler: say}
  - {name: wait, app: home, handler: wait}
"""


def test_a_saved_handler_is_used_by_the_next_run(tmp_path: Path) -> None:
    handlers = tmp_path / "handlers.py"
    handlers.write_text(SOURCE)
    (tmp_path / "jobs.yaml").write_text(JOBS)

    def warren(*arguments: str) -> str:
        done = run_warren(*arguments, folder=tmp_path)
        return done.stdout + done.stderr

    arguments = ("up", "--jobs", "handlers.py", "--apply", "jobs.yaml", "--reload")
    with Command(*arguments, "--executors", "1", folder=tmp_path) as up:
        up.wait_for("Warren is up")
        warren("jobs", "trigger", "wait")
        eventually((tmp_path / "begun").exists)

        handlers.write_text(SOURCE.replace("first", "second"))
        up.wait_for("handlers reloaded")
        assert "second" in warren("jobs", "trigger", "say", "--wait")

        handlers.write_text("def broken(:\n")
        up.wait_for("not reloaded, the old code stays in use: ")
        assert "second" in warren("jobs", "trigger", "say", "--wait")

        (tmp_path / "release").touch()
        eventually(lambda: "first" in warren("runs", "list", "--job", "wait", "--json"))


def test_reload_needs_something_to_watch(tmp_path: Path) -> None:
    done = run_warren("up", "--reload", folder=tmp_path)

    assert done.returncode == 2
    assert "--reload needs handlers to watch: --jobs FILE.py" in done.stderr
