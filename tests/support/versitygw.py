"""A full server of S3, written by others: versitygw, built with Go when tests run."""

import os
import subprocess
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.support.compiled_clients import tools
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.s3_server import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from tests.support.service import Service
from warren.scheduler.log_store.s3_store import Bucket, S3Store

VERSION = "v1.8.0"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
#: Built once, and kept with what else is built.
_FOLDER = Path(__file__).parents[2] / "build/versitygw" / VERSION
#: Two cores need four minutes.
BUILD_SECONDS = 1_500


def program() -> Path:
    """Return the server's program; skip the test if it cannot be had."""
    (go,) = tools("go")
    built = _FOLDER / "versitygw"
    if not built.exists():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [go, "install", f"{_MODULE}@{VERSION}"],
            env=os.environ | {"GOBIN": str(_FOLDER)},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"versitygw cannot be built: {done.stderr[-500:]}")
    return built


class VersityGateway:
    """A server with a bucket in a folder, at the same port whenever it is started."""

    def __init__(self, folder: Path) -> None:
        self._program = program()
        self._folder = folder
        self._port = free_port()
        (folder / "data" / BUCKET).mkdir(parents=True)
        self._service: Service | None = None
        self.start()

    def store(self) -> S3Store:
        return S3Store(
            Bucket(
                name=BUCKET,
                prefix="a/prefix",
                endpoint=f"http://127.0.0.1:{self._port}",
                region=REGION,
                access_key=ACCESS_KEY,
                secret_key=SECRET_KEY,
            )
        )

    def files(self) -> list[str]:
        """Return the keys of what is stored."""
        top = self._folder / "data" / BUCKET
        return sorted(
            str(path.relative_to(top))
            for path in top.rglob("*")
            if path.is_file() and not path.relative_to(top).parts[0].startswith(".")
        )

    def start(self) -> None:
        keys = ("--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION)
        place = ("--port", f"127.0.0.1:{self._port}", "posix", str(self._folder / "data"))
        output = self._folder / "versitygw.log"
        self._service = Service([str(self._program), *keys, *place], env={}, output=output)
        eventually(self._answers)

    def stop(self) -> None:
        if self._service is not None:
            self._service.end()
            self._service = None

    def _answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status > 0
        except OSError:
            return False
        finally:
            connection.close()
