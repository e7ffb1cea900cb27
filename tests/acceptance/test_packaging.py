"""What `pip install warren` brings: built as it is released, and used in fresh environments.

Building needs no network. Installing needs PyPI, and is skipped where that cannot be reached.
"""

import json
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support import distributions, own_modules
from tests.support.command import Command
from tests.support.distributions import BUNDLE
from tests.support.eventually import eventually
from tests.support.ports import free_port
from warren import __version__
from warren.cli import COMMANDS
from warren.error_output import SERVER_LIBRARIES

#: The commands that a host without the server's libraries does not have.
OF_THE_SERVER = {
    "api",
    "audit",
    "broker",
    "console",
    "db",
    "import",
    "scheduler",
    "sso",
    "tokens",
    "up",
    "users",
}

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"

#: How `check` and `executor` begin to complain where all is well but the broker.
NO_BROKER = ["error: broker: cannot reach", "error: cannot reach"]

HANDLER = """
from warren import JobContext, job

@job("greet")
def greet(context: JobContext) -> None:
    print("hello", context.param)
"""

#: What the server would have in other versions, each used and not only imported.
OLD_FRIENDS = """
import flask, pydantic, sqlalchemy
from warren import JobContext, job

class Order(pydantic.BaseModel):
    number: int

    @pydantic.validator("number")
    def positive(cls, value):
        assert value > 0
        return value

@job("orders")
def orders(context: JobContext) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    number = engine.execute("select 41 + 1").scalar()
    app = flask.Flask("reports")
    app.route("/")(lambda: str(Order(number=number).dict()))
    print(app.test_client().get("/").get_data(as_text=True))
    print([library.partition(".")[0] for library in VERSIONS])

from importlib.metadata import version
VERSIONS = [version(name) for name in ("Flask", "SQLAlchemy", "pydantic")]
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distributions.copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    distributions.build(sources, sources.parent / "direct", "--wheel")
    [wheel] = (sources.parent / "direct").glob("warren-*.whl")
    return wheel


def errors_without_a_broker(programs: Path, folder: Path) -> list[str]:
    """Return how `check` and `executor` complain that no broker is there; all else is well."""
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    (folder / "warren.toml").write_text(f'app_secret = "{"s" * 64}"\nbroker_url = "{url}"\n')
    checked, started = (
        distributions.run(programs / "warren", *arguments, folder=folder, check=False)
        for arguments in (
            ("check", "--for", "executor"),
            ("executor", "--app", "reports", "handlers.py"),
        )
    )
    return [done.stderr.splitlines()[-1].partition(" the")[0] for done in (checked, started)]


class TestBuilt:
    @pytest.mark.release
    def test_sdist_builds_the_wheel_that_the_sources_build(
        self, sources: Path, wheel: Path, tmp_path: Path
    ) -> None:
        distributions.build(sources, tmp_path / "dist")
        [of_sdist] = (tmp_path / "dist").glob("warren-*.whl")

        assert distributions.contents(of_sdist) == distributions.contents(wheel)

    def test_wheel_holds_what_is_no_source_too(self, wheel: Path) -> None:
        held = set(distributions.contents(wheel))

        assert held >= {
            f"warren/{BUNDLE}/manifest.json",
            f"warren/{BUNDLE}/console-ABC.js",
            "warren/admin_web/static/console.css",
            "warren/admin_web/templates/base.html",
            "warren/admin_web/translations/zh_CN/console.po",
            "warren/scheduler/commands/common_passwords.txt",
            "warren/sql/migrations/script.py.mako",
            "warren/__init__.pyi",
            "warren/py.typed",
        }
        assert {name.partition("/")[0] for name in held if ".dist-info/" not in name} == {"warren"}
        assert not [name for name in held if "frontend/" in name or "__pycache__" in name]

    def test_sdist_holds_what_the_scripts_are_built_of(self, sources: Path, tmp_path: Path) -> None:
        distributions.build(sources, tmp_path / "dist", "--sdist")
        [sdist] = (tmp_path / "dist").glob("warren-*.tar.gz")

        held = distributions.members(sdist)
        assert {name.partition("/")[0] for name in held} & set(distributions.PACKAGES) == {"warren"}
        assert held >= {
            "LICENSE",
            "constraints.txt",
            "scripts/build-console",
            "warren/admin_web/frontend/package-lock.json",
            "warren/admin_web/frontend/src/entries/console.js",
            f"warren/{BUNDLE}/manifest.json",
        }

    def test_metadata_says_what_it_is_and_under_which_license(self, wheel: Path) -> None:
        said = distributions.metadata(wheel)

        assert (said["Name"], said["License-Expression"]) == ("warren", "Apache-2.0")
        assert said["Version"] == __version__
        assert said["Requires-Python"] == ">=3.11"
        assert said["Summary"]
        assert said["Keywords"]
        assert "Typing :: Typed" in said.get_all("Classifier", [])
        assert "# Warren" in str(said.get_payload())

    def test_server_is_an_extra(self, wheel: Path) -> None:
        said = distributions.metadata(wheel).get_all("Requires-Dist", [])

        base = {one.partition("<")[0].partition(">")[0] for one in said if "extra ==" not in one}
        server = [one for one in said if 'extra == "server"' in one]
        assert base == {"click", "msgspec", "pika", "psutil", "structlog", "tzdata"}
        assert any(one.startswith("SQLAlchemy") for one in server)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make release` leaves in `dist`."""
    sources = distributions.copy_sources(tmp_path_factory.mktemp("release") / "sources")
    make = distributions.ROOT / "scripts/make-release"
    distributions.run(Path(sys.executable), str(make), folder=sources)
    return sources / "dist"


class TestRelease:
    def test_it_has_wheel_sdist_and_what_the_dockerfile_copies(self, release: Path) -> None:
        held = {path.relative_to(release).as_posix() for path in release.rglob("*")}
        copied = [
            source
            for line in (release / "Dockerfile").read_text().splitlines()
            for source in line.split()[1:-1]
            if line.startswith("COPY ") and "--from=" not in line
        ]
        names = {f"warren-{__version__}-py3-none-any.whl", f"warren-{__version__}.tar.gz"}

        assert names | {"NOTES.md", "SHA256SUMS"} | set(copied) <= held
        assert names & set(copied)
        assert {line.split()[1] for line in (release / "SHA256SUMS").open()} == names

    def test_its_dockerfile_differs_only_in_where_the_wheel_comes_from(self, release: Path) -> None:
        ours = (distributions.ROOT / "Dockerfile").read_text().splitlines()
        theirs = (release / "Dockerfile").read_text().splitlines()

        [added] = [line for line in theirs if line not in ours and "pip wheel" in line]
        assert [line for line in theirs if line not in ours and line != added] == [
            f"COPY constraints.txt warren-{__version__}-py3-none-any.whl ./"
        ]
        assert ours[-12:] == theirs[-12:]

    def test_its_notes_are_those_of_the_changelog(self, release: Path) -> None:
        notes = (release / "NOTES.md").read_text()
        changelog = (distributions.ROOT / "CHANGELOG.md").read_text()

        title, _, rest = notes.partition("\n\n")
        assert title == f"# Warren {__version__}"
        assert changelog.partition(rest.strip())[2].lstrip().startswith("## ")

    @pytest.mark.release
    def test_it_is_installed_as_its_dockerfile_says_and_runs(
        self, release: Path, tmp_path: Path
    ) -> None:
        distributions.skip_without_pypi(tmp_path)
        wheels, pip = tmp_path / "wheels", ("-m", "pip", "--disable-pip-version-check")
        dockerfile = (release / "Dockerfile").read_text()
        [extras] = re.findall(r"^ARG EXTRAS=(.+)$", dockerfile, re.MULTILINE)
        given = dockerfile.replace("/wheels", str(wheels)).replace("$EXTRAS", extras)
        build, install = (
            shlex.split(line.partition("&&")[0])[2:]
            for line in given.splitlines()
            if line.startswith("RUN pip ")
        )
        distributions.run(Path(sys.executable), *pip, *build, folder=release)
        programs = distributions.make_environment(tmp_path / "venv", [], *install[1:])

        said = distributions.run(programs / "warren", "--version", folder=tmp_path)
        folder = tmp_path / "project"
        with Command("up", "--port", "0", folder=folder, program=programs / "warren") as up:
            console = up.wait_for("  console ").split()[-1]
            assert status_of(console + "/") == 200
            up.send(signal.SIGINT)
            assert up.wait() == 0

        assert said.stdout == f"warren {__version__}\n"


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel alone."""
    folder = tmp_path_factory.mktemp("fresh")
    distributions.skip_without_pypi(folder)
    return distributions.make_environment(folder / "venv", [str(wheel)])


@pytest.mark.release
class TestExecutorsHost:
    def test_nothing_of_the_server_is_installed(self, fresh: Path, tmp_path: Path) -> None:
        code = f"import importlib.util as u; print([m for m in {sorted(SERVER_LIBRARIES)} "
        done = distributions.run(
            fresh / "python", "-c", code + "if u.find_spec(m)])", folder=tmp_path
        )

        assert done.stdout == "[]\n"

    def test_a_handler_is_tried(self, fresh: Path, tmp_path: Path) -> None:
        (tmp_path / "handlers.py").write_text(HANDLER)

        done = distributions.run(
            fresh / "warren", "try", "handlers.py", "greet", "--param", "you", folder=tmp_path
        )

        assert "hello you" in done.stdout

    def test_an_executor_gets_as_far_as_its_broker(self, fresh: Path, tmp_path: Path) -> None:
        (tmp_path / "handlers.py").write_text(HANDLER)

        explained = distributions.run(fresh / "warren", "executor", "--help", folder=tmp_path)
        said = errors_without_a_broker(fresh, tmp_path)

        assert "Run an executor with the handlers" in explained.stdout
        assert said == NO_BROKER

    def test_only_a_command_of_the_server_says_what_to_install(
        self, fresh: Path, tmp_path: Path
    ) -> None:
        runs = {
            name: distributions.run(fresh / "warren", name, "--help", folder=tmp_path, check=False)
            for name in COMMANDS
        }
        refused = {name: done for name, done in runs.items() if done.returncode}
        assert refused.keys() == OF_THE_SERVER
        refused["check"] = distributions.run(
            fresh / "warren", "check", folder=tmp_path, check=False
        )

        for done in refused.values():
            [line] = done.stderr.splitlines()
            assert line.startswith("error: this command needs the server, and ")
            assert line.endswith(" is not installed: install Warren's wheel with [server]")
            assert done.returncode == 1

    def test_gateway_says_what_to_install(self, fresh: Path, tmp_path: Path) -> None:
        done = distributions.run(fresh / "warren", "gateway", folder=tmp_path, check=False)

        [line] = done.stderr.splitlines()
        assert line == (
            "error: this command needs the gateway, and aiohttp is not installed: "
            "install Warren's wheel with [gateway]"
        )


#: PyPI's distributions that install `scheduler`, `executor` and `sql`.
NAMESAKES = ["scheduler", "executor", "python-sql"]

HANDLERS_OF_NAMESAKES = """
import executor, scheduler, sql
from warren import Client, JobContext, job

@job("words")
def words(context: JobContext) -> str:
    table = sql.Table("orders")
    said = executor.execute("echo", "echoed", capture=True)
    return f"{said} {scheduler.Scheduler().jobs} {table.select(table.id)}"
"""

#: Prints each file that several distributions have installed, and each that another has replaced.
FILES_OF_SEVERAL = """
from collections import Counter
from importlib.metadata import distributions
files = [file for one in distributions() for file in one.files]
counted = Counter(file.locate().resolve() for file in files)
print([str(file) for file, count in counted.items() if count > 1])
print([str(file) for file in files if file.size not in (None, file.locate().stat().st_size)])
"""

JOB_FILE = """
apps: [{name: shop}]
jobs: [{name: words, app: shop, schedule: {every: 1}, handler: words, enabled: true}]
"""


@pytest.fixture(scope="module")
def crowded(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, its extra `server`, and PyPI's namesakes."""
    folder = tmp_path_factory.mktemp("crowded")
    distributions.skip_without_pypi(folder)
    packages = [f"{wheel}[server]", "-c", str(CONSTRAINTS), *NAMESAKES]
    return distributions.make_environment(folder / "venv", packages)


@pytest.mark.release
class TestNamesakes:
    """Users' modules, and others' distributions, that are named as our folders are."""

    @pytest.fixture(params=["packages beside", "files beside", "packages on path", "files on path"])
    def project(self, request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
        """A folder with handlers, and the one with a module of each name: itself, or another."""
        kind, _, place = request.param.partition(" ")
        write = own_modules.write_packages if kind == "packages" else own_modules.write_files
        modules = write(tmp_path if place == "beside" else tmp_path / "modules")
        (tmp_path / "handlers.py").write_text(own_modules.HANDLERS)
        (tmp_path / "jobs.yaml").write_text(JOB_FILE)
        return tmp_path, modules

    @pytest.fixture
    def command(self, crowded: Path, project: tuple[Path, Path]) -> Callable[..., Command]:
        """Runs a program of the environment in the project's folder."""
        folder, modules = project
        env = {} if modules == folder else {"PYTHONPATH": str(modules)}

        def command(name: str, *arguments: str, **more: str) -> Command:
            return Command(*arguments, folder=folder, program=crowded / name, env=env | more)

        return command

    def test_no_file_is_overwritten(self, crowded: Path, tmp_path: Path) -> None:
        done = distributions.run(crowded / "python", "-c", FILES_OF_SEVERAL, folder=tmp_path)

        assert done.stdout == "[]\n[]\n"

    def test_distributions_work_beside(self, crowded: Path, tmp_path: Path) -> None:
        (tmp_path / "handlers.py").write_text(HANDLERS_OF_NAMESAKES)

        done = distributions.run(crowded / "warren", "try", "handlers.py", "words", folder=tmp_path)

        assert 'echoed set() SELECT "a"."id" FROM "orders" AS "a"' in done.stdout

    def test_own_modules_work_with_a_program_and_try(self, command: Callable[..., Command]) -> None:
        with command("python", "-c", own_modules.PROGRAM) as program:
            assert (program.wait(), program.text()) == (0, own_modules.WORDS + "\n")
        with command("warren", "try", "handlers.py", "words") as tried:
            assert tried.wait() == 0, tried.text()
            assert own_modules.WORDS in tried.text()

    def test_own_modules_work_with_an_executor(
        self, command: Callable[..., Command], project: tuple[Path, Path], vhost: str
    ) -> None:
        settings = {"WARREN_BROKER_URL": vhost, "WARREN_APP_SECRET": "s" * 64}
        loaded = project[0] / "loaded"

        with command("warren", "executor", "--app", "shop", "handlers.py", **settings) as executor:
            eventually(lambda: loaded.exists() and loaded.read_text() == own_modules.WORDS)
            assert executor.is_running, executor.text()

    def test_own_modules_work_with_up(
        self, command: Callable[..., Command], project: tuple[Path, Path]
    ) -> None:
        arguments = ("up", "--jobs", "handlers.py", "--apply", "jobs.yaml", "--port", "0")

        with command("python", "-m", "warren", *arguments) as up:
            console = up.wait_for("  console ").split()[-1]
            called = up.wait_for(" runs list ").partition(" runs list ")[0]

            def messages() -> set[str]:
                """Ask as `up` said that one can, in another terminal."""
                [program, *module] = shlex.split(called)
                listed = (*module, "runs", "list", "--status", "SUCCEEDED", "--json")
                done = distributions.run(Path(program), *listed, folder=project[0])
                return {json.loads(line)["message"] for line in done.stdout.splitlines()}

            assert called.endswith("/python -m warren")
            assert [status_of(console + path) for path in ("/", "/static/console.css")] == [200] * 2
            eventually(lambda: messages() == {own_modules.WORDS}, every=0.5)


def status_of(url: str) -> int:
    with urlopen(url, timeout=30) as answer:
        return int(answer.status)


@pytest.mark.release
def test_handlers_use_old_versions_beside_the_oldest_that_warren_takes(
    wheel: Path, tmp_path: Path
) -> None:
    distributions.skip_without_pypi(tmp_path)
    theirs = ["Flask<3", "Werkzeug<3", "SQLAlchemy<2", "pydantic<2"]
    ours = distributions.lowest_dependencies()
    programs = distributions.make_environment(tmp_path / "venv", [str(wheel), *ours, *theirs])
    (tmp_path / "handlers.py").write_text(OLD_FRIENDS)

    done = distributions.run(programs / "warren", "try", "handlers.py", "orders", folder=tmp_path)

    assert "{'number': 42}" in done.stdout
    assert "['2', '1', '1']" in done.stdout
    assert errors_without_a_broker(programs, tmp_path) == NO_BROKER
