"""Clients that generators make of the API's description: they compile, and their calls work."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.compiled_clients import run_tool, tools
from tests.support.deployment import Deployment
from tests.support.distributions import make_environment, run, skip_without_pypi
from tests.support.mariadb import PrivateMariaDB
from tests.support.ports import free_port
from tests.support.rabbitmq import PrivateRabbit
from warren.sql.imports import origins

ROOT = Path(__file__).parents[3]
DESCRIPTION = ROOT / "docs/openapi.json"
PROGRAMS = Path(__file__).parent / "generated"
GENERATOR = "org.openapitools:openapi-generator-cli:7.14.0"
PYTHON_GENERATOR = "openapi-python-client==0.29.1"
#: More than 32 bits hold.
LARGE_ID = 2**40
SCOPES = "read,trigger"


def go(folder: Path) -> Sequence[str]:
    """Return the command of a program in Go with openapi-generator's client."""
    maven, java, compiler = tools("mvn", "java", "go")
    fetch = ("dependency:copy", f"-Dartifact={GENERATOR}", f"-DoutputDirectory={folder}")
    run_tool(maven, "-q", "-B", *fetch, folder=folder)
    jar = next(folder.glob("openapi-generator-cli-*.jar"))
    client = folder / "client"
    names = ("--git-user-id", "warren", "--git-repo-id", "client")
    more = ("--additional-properties", "packageName=warren,withGoMod=true", *names)
    made = ("generate", "-i", str(DESCRIPTION), "-g", "go", "-o", str(client), *more)
    run_tool(java, "-jar", str(jar), *made, folder=folder)
    shutil.rmtree(client / "test")  # it has dependencies of its own
    (client / "program").mkdir()
    shutil.copy(PROGRAMS / "main.go", client / "program")
    run_tool(compiler, "build", "-o", str(folder / "program"), "./program", folder=client)
    return (str(folder / "program"),)


def python(folder: Path) -> Sequence[str]:
    """Return the command of a program in Python with openapi-python-client's client."""
    skip_without_pypi(folder)
    programs = make_environment(folder / "environment", (PYTHON_GENERATOR,))
    made = ("generate", "--path", str(DESCRIPTION), "--meta", "none")
    output = ("--output-path", str(folder / "warren_client"))
    run(programs / "openapi-python-client", *made, *output, folder=folder)
    shutil.copy(PROGRAMS / "main.py", folder)
    return str(programs / "python"), str(folder / "main.py")


@pytest.fixture
def deployment(
    rabbitmq: PrivateRabbit, mariadb: PrivateMariaDB, tmp_path: Path
) -> Iterator[Deployment]:
    with Deployment(
        tmp_path / "deployment",
        database_url=mariadb.create_database(),
        broker_url=rabbitmq.vhost_url(rabbitmq.add_vhost()),
    ) as made:
        yield made


@pytest.mark.timeout(600)  # the generators come from the network
@pytest.mark.parametrize("make", [go, python])
def test_generated_client_lists_shows_and_triggers(
    make: Callable[[Path], Sequence[str]], deployment: Deployment, tmp_path: Path
) -> None:
    program = make(tmp_path)
    deployment.job("nightly")
    deployment.database.write(lambda session: origins.raise_run_ids(session, LARGE_ID))
    run_id = str(deployment.trigger("nightly"))
    deployment.warren("users", "add", "ci", "--role", "administrator", "--no-password")
    said = deployment.warren("tokens", "add", "generated", "--owner", "ci", "--scopes", SCOPES)
    port = free_port()
    deployment.api(port)

    where = (f"http://127.0.0.1:{port}", said.splitlines()[0], deployment.app, "nightly")
    called = run(Path(program[0]), *program[1:], *where, run_id, folder=tmp_path)

    name, shown, begun = called.stdout.split()
    assert int(run_id) > LARGE_ID
    assert (name, shown) == ("nightly", run_id)
    [made] = deployment.runs(id=int(begun))
    assert made.param in ("from Go", "from Python")
