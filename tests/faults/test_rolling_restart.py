"""Each kind of process is restarted in turn, as in a deploy, while jobs of every kind run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.support.api import make_token
from tests.support.console import Clock, add_user
from tests.support.deployment import Deployment
from tests.support.eventually import eventually
from tests.support.loaded_deployment import LoadedDeployment
from tests.support.ports import free_port
from warren import ApiError, Client
from warren.sql.accounts.users import Role

#: No run may start later than this after it was due. It finds a run that waits for ever, or for an
#: outage to be judged; it is no measure of lateness, which on a busy machine is that machine's.
LATEST_MS = 600_000


class Triggers:
    """A program that triggers runs by the API with the client, one after the other."""

    def __init__(self, url: str, token: str) -> None:
        self.run_ids: list[int] = []
        self._client = Client(url, token, retry_for=120)
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._go_on, name="triggers")

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Trigger runs meanwhile; none may be refused."""
        self._thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._thread.join()
        if self._error:
            raise self._error

    def _go_on(self) -> None:
        try:
            while not self._ending.wait(0.2):
                self.run_ids.append(self._client.trigger("demo/child").id)
        except ApiError as error:
            self._error = error


@pytest.fixture
def loaded(mariadb_schema_url: str, vhost: str, tmp_path: Path) -> Iterator[LoadedDeployment]:
    given = {"database_url": mariadb_schema_url, "broker_url": vhost}
    with Deployment(tmp_path, **given) as deployment:
        yield LoadedDeployment(deployment)


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=30) as answer:
            return int(answer.status) == 200
    except URLError:
        return False


@pytest.mark.release
@pytest.mark.timeout(1_200)
def test_a_rolling_restart_of_everything_loses_no_run_and_doubles_none(
    loaded: LoadedDeployment,
) -> None:
    deployment, port = loaded.deployment, free_port()
    schedulers, gateway = loaded.schedulers(), loaded.gateway()
    executors = {address: loaded.executor(address) for address in ("one", "two")}
    deployment.await_executors(*executors.values())
    console, api = deployment.console(), deployment.api(port)
    loaded.apply_jobs()
    add_user(deployment.database, "program", Role.ADMINISTRATOR)
    token = make_token(deployment.database, Clock(deployment.now_ms()), "program")
    triggers = Triggers(f"http://127.0.0.1:{port}", token)

    with loaded.remote_executor() as remote, triggers.going_on():
        loaded.await_work("one", "two", remote)
        for number, scheduler in enumerate(schedulers):
            loaded.end(scheduler)
            schedulers[number] = deployment.scheduler()
            deployment.await_schedulers(schedulers[number])
            loaded.await_work("one", "two", remote, runs=5)
        for address, executor in executors.items():
            loaded.end(executor)
            deployment.await_executors(loaded.executor(address))
            loaded.await_work("one", "two", remote, runs=5)
        loaded.end(gateway)
        loaded.gateway()
        loaded.await_work(remote, runs=5)
        before = len(triggers.run_ids)
        loaded.end(console, api)
        console, api = deployment.console(), deployment.api(port)
        eventually(lambda: len(triggers.run_ids) > before + 5)
        assert answers(console.wait_for("console: ").split()[-1])

    loaded.assert_sound()
    assert len(set(triggers.run_ids)) == len(triggers.run_ids) > 10
    rows = loaded.rows()
    # What a draining executor gave back is another row, of the same origin.
    assert set(triggers.run_ids) <= {row.origin_id for row in rows if row.status == "SUCCEEDED"}
    late_ms = [row.started_at - row.due_at for row in rows if row.started_at]
    assert max(late_ms) < LATEST_MS
