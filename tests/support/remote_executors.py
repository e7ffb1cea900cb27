"""Third-party executors, downloaded from PyPI when tests run, and the gateway they call."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

import pytest

from tests.support.command import Command
from tests.support.deployment import SECRET, Deployment
from tests.support.distributions import make_environment, skip_without_pypi
from tests.support.eventually import eventually
from tests.support.ports import free_port
from warren.broker.signing import app_key

PACKAGES = ("pyxxl==0.4.8", "flask-xxljob==0.4.0")
TOKEN = "a-token-of-the-tests"
OTHER_APP, OTHER_TOKEN = "another", "a-token-of-others"
INTEROP = Path(__file__).parents[1] / "interop"


def environment(shared: Path) -> Path:
    """Return the `bin` of the environment with these clients, created once for all workers."""
    folder = shared / "interop-environment"
    with (shared / "interop.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            skip_without_pypi(shared)
            make_environment(folder, PACKAGES)
            (folder / "made").touch()
    return folder / "bin"


class GatewayCase:
    """A deployment with a gateway, and third-party executors that register there."""

    def __init__(self, deployment: Deployment, programs: Path) -> None:
        self.deployment = deployment
        self.folder = deployment.folder
        self.app = deployment.app
        self.port = free_port()
        #: Of the gateways that clients are told of.
        self.ports = [self.port]
        self._programs = programs
        self.remotes: list[Command] = []
        self.tokens = self.folder / "gateway-tokens"
        key = app_key(SECRET, self.app)
        other = f"{OTHER_APP}: {OTHER_TOKEN} {app_key(SECRET, OTHER_APP)}"
        self.tokens.write_text(f"# app, token, key\n{self.app}: {TOKEN} {key}\n{other}\n")

    def gateway(self, **settings: Any) -> Command:
        """Start a gateway and wait until executors can register."""
        env = {
            "WARREN_SECRET": "",
            "WARREN_GATEWAY_TOKENS_FILE": str(self.tokens),
            "WARREN_GATEWAY_ALLOW": "127.0.0.1",
            "WARREN_GATEWAY_PORT": str(self.port),
        } | {f"WARREN_{name.upper()}": str(value) for name, value in settings.items()}
        command = self.deployment.gateway(env)
        command.wait_for("gateway_started")
        return command

    def pyxxl(self, *, port: int = 0) -> tuple[Command, str]:
        """Start a pyxxl executor; return it with its address, once it is welcome."""
        port = port or free_port()
        command = self.program("pyxxl_app.py", str(port))
        self.await_registered(port)
        return command, f"127.0.0.1:{port}"

    def program(self, name: str, port: str, *, app: str = "", token: str = TOKEN) -> Command:
        """Start a client from the interop folder."""
        program = [str(self._programs / "python"), str(INTEROP / name)]
        return self.start(program, port, path="/xxl-job-admin/api/", app=app, token=token)

    def compiled(self, program: Sequence[str], *, port: int = 0) -> tuple[Command, str]:
        """Start a client in Java or Go; return it with its address, once it is welcome."""
        port = port or free_port()
        command = self.start(program, str(port))
        self.await_registered(port)
        return command, f"127.0.0.1:{port}"

    def start(
        self,
        program: Sequence[str],
        port: str,
        *,
        path: str = "/xxl-job-admin",
        app: str = "",
        token: str = TOKEN,
    ) -> Command:
        """Start a client; `path` is the admin's path as the client expects it."""
        command = Command(
            *program[1:],
            ",".join(f"http://127.0.0.1:{one}{path}" for one in self.ports),
            port,
            str(self.folder),
            folder=self.folder,
            env={"APP": app or self.app, "TOKEN": token},
            program=Path(program[0]),
        )
        self.remotes.append(command)
        return command

    def release_file(self, name: str) -> str:
        """Return the path of a file that a job waits for; it does not exist yet."""
        return str(self.folder / f"{name}-{time.monotonic_ns()}")

    def await_registered(self, port: int) -> None:
        """Wait until an executor is listed."""
        eventually(lambda: self.listed().get(f"127.0.0.1:{port}") == "alive", every=0.1)

    def listed(self) -> dict[str, str]:
        """Return the executors' states by address."""
        said = self.deployment.warren("executors", "list", "--json")
        return {one["address"]: one["state"] for one in map(json.loads, said.splitlines())}

    def await_gone(self, address: str) -> None:
        """Wait until an executor gets no more runs."""
        eventually(lambda: self.listed().get(address) != "alive", every=0.1)

    def call(self, name: str, body: Any, *, token: str = TOKEN) -> dict[str, Any]:
        """Call the gateway as an executor does, and return its answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self.port}/api/{name}", data=data)
        request.add_header("XXL-JOB-ACCESS-TOKEN", token)
        with urlopen(request, timeout=30) as response:
            assert response.headers.get_content_type() == "application/json"
            reply: dict[str, Any] = json.load(response)
        return reply

    def end(self, commands: Collection[Command]) -> None:
        """End clients at once, and wait until they get no more runs."""
        for command in commands:
            command.send(signal.SIGTERM)
        for command in commands:
            with suppress(AssertionError):
                command.wait(30)
            command.close()
            self.remotes.remove(command)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for command in self.remotes:
            command.close()


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder shared by all workers of a test session."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
