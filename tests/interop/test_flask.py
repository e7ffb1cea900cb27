"""An executor of Flask-XXLJob behind the gateway: below a path, and with answers of its own."""

import pytest

from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.remote_executors import OTHER_APP, OTHER_TOKEN, GatewayCase
from warren.sql.run_status import RunStatus


def test_run_goes_to_an_executor_below_a_path_and_its_end_comes_back(
    served: GatewayCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = served.deployment
    monkeypatch.setattr(deployment, "app", OTHER_APP)
    deployment.add_app(OTHER_APP)
    port = free_port()
    served.program("flask_app.py", str(port), app=OTHER_APP, token=OTHER_TOKEN)
    eventually(lambda: _state_at(served, port) == "alive", every=0.2)
    deployment.job("flask", handler="flask")

    [run] = deployment.await_final(deployment.trigger("flask"))

    assert (run.status, run.message) == (RunStatus.SUCCEEDED, "by Flask")
    assert run.address.startswith(f"127.0.0.1:{port}-")
    assert len([start for start in deployment.starts() if start["run"] == run.id]) == 1


def _state_at(case: GatewayCase, port: int) -> str:
    mark = f"127.0.0.1:{port}-"
    return next((state for name, state in case.listed().items() if name.startswith(mark)), "")
