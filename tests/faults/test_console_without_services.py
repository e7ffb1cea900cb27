"""A console whose database and broker die: it says so at once, and has them back by itself."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.acting import NamedUsers
from tests.support.caller import Answer, Caller
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.mariadb import PrivateMariaDB
from tests.support.rabbitmq import PrivateRabbit
from warren.sql.accounts.users import Role

PASSWORD = "a password for the tests"
#: What answers while nothing does; a page is not waited for.
PROMPT_SECONDS = 20.0


class Scene:
    """A Warren on services of its own, and somebody who has signed in."""

    def __init__(self, deployment: Deployment, url: str) -> None:
        self.deployment = deployment
        self.caller = Caller(url)
        self.caller.sign_in("alice", PASSWORD)
        deployment.job("quick")
        self.run_id = deployment.trigger("quick")
        deployment.await_success(self.run_id)
        self.job_id = deployment.job_row("quick").id

    @property
    def pages(self) -> list[str]:
        return ["/", "/jobs", f"/jobs/{self.job_id}", "/runs", f"/runs/{self.run_id}", "/executors"]

    def get(self, path: str) -> Answer:
        """Open a page; it may not take long."""
        began = time.monotonic()
        answer = self.caller.get(path)
        assert time.monotonic() - began < PROMPT_SECONDS, path
        assert "Traceback" not in answer.text
        return answer

    def post(self, path: str, **fields: object) -> Answer:
        """Send a form; that may not take long either."""
        began = time.monotonic()
        answer = self.caller.hear(self.caller.send(path, **fields))
        assert time.monotonic() - began < PROMPT_SECONDS, path
        return answer

    def is_well(self) -> bool:
        return self.caller.get("/healthz").status == 200


@pytest.fixture
def scene(
    tmp_path: Path, own_rabbitmq: PrivateRabbit, own_mariadb: PrivateMariaDB
) -> Iterator[Scene]:
    with Deployment(
        tmp_path / "warren",
        database_url=own_mariadb.create_database(),
        broker_url=own_rabbitmq.url,
    ) as deployment:
        NamedUsers(deployment.database, who="the tests").add(
            "alice", PASSWORD, role=Role.ADMINISTRATOR, app_names=()
        )
        scheduler, executor = deployment.scheduler(), deployment.executor("one")
        console = deployment.console()
        deployment.await_schedulers(scheduler)
        deployment.await_executors(executor)
        own_rabbitmq.settle()
        yield Scene(deployment, console.wait_for("console: ").split()[1])
        deployment.assert_sound()


def test_console_says_what_is_lost_and_goes_on_when_it_is_back(
    scene: Scene, own_rabbitmq: PrivateRabbit, own_mariadb: PrivateMariaDB
) -> None:
    eventually(scene.is_well, every=0.1)
    seen = {path: scene.get(path) for path in scene.pages}
    assert {answer.status for answer in seen.values()} == {200}

    own_mariadb.kill()

    for path in scene.pages:
        answer = scene.get(path)
        assert (answer.status, "This page is from" in answer.text) == (503, True)
        assert "quick" in answer.text or "quick" not in seen[path].text
    for path in ("/users", "/metrics", f"/runs/{scene.run_id}/log/lines"):
        assert scene.get(path).status in (403, 503), path
    assert '"database":false' in scene.get("/healthz").text
    assert scene.post(f"/jobs/{scene.job_id}/trigger/run").status == 503
    assert Caller(scene.caller.url).get("/login").status == 200

    own_mariadb.start()
    eventually(scene.is_well, every=0.1)
    assert scene.get("/").status == 200

    own_rabbitmq.stop()
    eventually(lambda: '"broker":false' in scene.get("/healthz").text, every=0.1)

    for path in scene.pages:
        answer = scene.get(path)
        assert (answer.status, answer.text.count("broker is unreachable")) == (200, 1), path
    assert scene.get(f"/runs/{scene.run_id}/log").status == 200
    assert scene.post(f"/jobs/{scene.job_id}/trigger/run").status == 303
    [waiting] = [run for run in scene.deployment.runs("quick") if run.id != scene.run_id]

    own_rabbitmq.start()
    eventually(scene.is_well, every=0.1)
    scene.deployment.await_success(waiting.id, seconds=60)
    lines = f"/runs/{scene.run_id}/log/lines"
    eventually(lambda: '"answer":"LINES"' in scene.get(lines).text, every=0.2)
