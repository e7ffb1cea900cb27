"""A private Keycloak on 127.0.0.1, fetched by Maven, with the realm of `keycloak/realm.json`."""

import json
import os
import shutil
import zipfile
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from tests.support.compiled_clients import run_tool, tools
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.service import Service

VERSION = "26.7.3"
REALM = Path(__file__).parent / "keycloak/realm.json"
CLIENT_ID, CLIENT_SECRET = "warren", "secret-of-the-tests+0123456789%2B"
#: The first start builds the server for its options: some minutes on two busy cores.
_START_SECONDS = 600.0
_ADMIN = "admin-of-the-tests"


def fetched(folder: Path) -> Path:
    """Return the folder of a Keycloak; skip the test without Maven or Java."""
    maven, _ = tools("mvn", "java")
    artifact = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
    fetch = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    run_tool(maven, "-q", "-B", *fetch, folder=folder)
    archive = folder / f"keycloak-quarkus-dist-{VERSION}.zip"
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    archive.unlink()
    program = folder / f"keycloak-{VERSION}/bin/kc.sh"
    program.chmod(0o755)
    return program.parents[1]


class Keycloak:
    """One server, whose data are in memory; used as a context.

    Args:
        home: a folder of `fetched`, which is its own.
        console: the URL of the console that signs people in by it.
        callback: the path of the redirect URI there.

    """

    def __init__(self, home: Path, console: str, callback: str) -> None:
        self._home = home
        self._port = free_port()
        self._service: Service | None = None
        self.issuer = f"http://127.0.0.1:{self._port}/realms/warren"
        realm = json.loads(REALM.read_text())
        [client] = realm["clients"]
        client["redirectUris"] = [console + callback]
        client["attributes"]["post.logout.redirect.uris"] = f"{console}/*"
        (home / "data/import").mkdir(parents=True, exist_ok=True)
        (home / "data/import/realm.json").write_text(json.dumps(realm))

    def __enter__(self) -> Self:
        command = [
            str(self._home / "bin/kc.sh"),
            "start-dev",
            "--db=dev-mem",
            "--http-host=127.0.0.1",
            f"--http-port={self._port}",
            "--import-realm",
        ]
        env = {
            "HOME": str(self._home),
            "JAVA_OPTS_KC_HEAP": "-Xms64m -Xmx512m",
            "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
            "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN,
        }
        if "JAVA_HOME" in os.environ:
            env["JAVA_HOME"] = os.environ["JAVA_HOME"]
        self._service = Service(command, env=env, output=self._home / "output.log")
        try:
            eventually(self._answers, seconds=_START_SECONDS, every=0.2)
        except BaseException:
            self._service.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._service is not None
        self._service.end()
        shutil.rmtree(self._home, ignore_errors=True)

    def join(self, name: str, group: str) -> None:
        """Put a user into a group."""
        self._admin("PUT", self._membership(name, group))

    def leave(self, name: str, group: str) -> None:
        """Take a user out of a group."""
        self._admin("DELETE", self._membership(name, group))

    def sessions(self, name: str) -> list[Any]:
        """Return a user's sessions there."""
        found: list[Any] = self._admin("GET", f"{self._user(name)}/sessions")
        return found

    def end_sessions(self, name: str) -> None:
        """End a user's sessions there, as an administrator can."""
        self._admin("POST", f"{self._user(name)}/logout")

    def _user(self, name: str) -> str:
        [user] = self._admin("GET", f"/users?username={name}&exact=true")
        return f"/users/{user['id']}"

    def _membership(self, name: str, group: str) -> str:
        [known] = self._admin("GET", f"/groups?search={group}&exact=true")
        return f"{self._user(name)}/groups/{known['id']}"

    def _answers(self) -> bool:
        assert self._service is not None
        assert not self._service.has_ended, self._service.last_words()
        try:
            status, _ = self._call("GET", "/realms/warren/.well-known/openid-configuration")
        except OSError:
            return False
        return status == 200

    def _admin(self, method: str, path: str) -> Any:
        """Call the administration of the realm."""
        form = {
            "client_id": "admin-cli",
            "grant_type": "password",
            "username": _ADMIN,
            "password": _ADMIN,
        }
        _, tokens = self._call("POST", "/realms/master/protocol/openid-connect/token", form)
        status, answer = self._call(
            method, f"/admin/realms/warren{path}", token=tokens["access_token"]
        )
        assert status < 300, (method, path, status, answer)
        return answer

    def _call(
        self, method: str, path: str, form: dict[str, str] | None = None, token: str = ""
    ) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if form:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, urlencode(form) if form else None, headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, json.loads(body) if body else None
