"""Dockerfile, docker-compose files and units fit the real command line and the real settings."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import click
import pytest

from tests.support import compose
from tests.support.compose import Service
from tests.support.processes import basic_environment
from warren.broker.codec import BODY_LIMIT, HEADER_LIMIT
from warren.cli import root
from warren.settings.settings import Settings, read_settings, secret_names, variables

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml",)
#: Three nodes of each service, on top.
OF_NODES = (*COMPOSE, ROOT / "docker-compose.ha.yml")
#: PostgreSQL in place of MariaDB, on top.
ON_POSTGRESQL = (*COMPOSE, ROOT / "docker-compose.postgresql.yml")
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
EXAMPLES = sorted((ROOT / "deploy/systemd").glob("*.env.example"))
DEFINITIONS = ROOT / "deploy/rabbitmq/make_definitions.py"
#: An image with a version for people and a digest that always names the same bytes.
PINNED = re.compile(r"[a-z]+:\d+(\.\d+)?(-[a-z]+)*@sha256:[0-9a-f]{64}")
SECRETS = {
    "WARREN_SECRET": "s" * 32,
    "WARREN_APP_SECRET": "a" * 64,
    "CONSOLE_PASSWORD": "c" * 32,
    "DATABASE_PASSWORD": "d" * 32,
    "SCHEDULER_PASSWORD": "p" * 32,
    "EXECUTOR_PASSWORD": "e" * 32,
}
NODES = {"BROKER_NODES_PASSWORD": "b" * 32}
GATEWAY = {
    "WARREN_GATEWAY_TOKENS": "examples: 0123456789abcdef",
    "WARREN_GATEWAY_ALLOW": "10.2.0.0/16",
}


def services_of(files: Sequence[Path]) -> dict[str, Service]:
    given = SECRETS | NODES | GATEWAY
    return compose.read_services(files, given) | compose.read_services(
        files, given, profile="gateway"
    )


SERVICES = services_of(COMPOSE)
SETS = {
    "one of each": SERVICES,
    "of nodes": services_of(OF_NODES),
    "on PostgreSQL": services_of(ON_POSTGRESQL),
}


def asked_by(files: Sequence[Path]) -> dict[str, str | None]:
    return compose.variables("".join(path.read_text() for path in files))


def each(wanted: Callable[[Service], bool]) -> pytest.MarkDecorator:
    """Run a test with each such service of both sets."""
    found = [
        pytest.param(one, id=f"{one.name}, {name}")
        for name, services in SETS.items()
        for one in services.values()
        if wanted(one)
    ]
    return pytest.mark.parametrize("service", found)


def is_ours(service: Service) -> bool:
    return service.is_warren and not service.entrypoint


def executors(services: Mapping[str, Service]) -> list[Service]:
    return [one for one in services.values() if is_ours(one) and one.command[0] == "executor"]


@pytest.fixture(params=SETS.values(), ids=SETS)
def services(request: pytest.FixtureRequest) -> dict[str, Service]:
    found: dict[str, Service] = request.param
    return found


def parse_command(words: list[str]) -> click.Context:
    """Return what the real command line makes of `warren WORDS`; wrong usage raises."""
    command: click.Command = root
    while isinstance(command, click.Group):
        context = click.Context(command)
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r}"
        command, words = found, words[1:]
    return command.make_context(str(command.name), list(words))


def settings_of(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in variables():
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return read_settings()


def ours(names: object) -> set[str]:
    return {name for name in names if name.startswith("WARREN_")}  # type: ignore[attr-defined]


class TestCompose:
    def config(
        self, given: dict[str, str], files: Sequence[Path] = COMPOSE
    ) -> subprocess.CompletedProcess[str]:
        program = shutil.which("docker-compose")
        if program is None:
            reason = "docker-compose is not installed: make services"
            pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
        return subprocess.run(
            [program, *(f"--file={path}" for path in files), "config", "--quiet"],
            env=basic_environment() | given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @pytest.mark.parametrize("files", [COMPOSE, OF_NODES, ON_POSTGRESQL], ids=SETS)
    def test_docker_compose_accepts_it(self, files: Sequence[Path]) -> None:
        done = self.config(SECRETS | NODES, files)

        assert (done.returncode, done.stderr) == (0, "")

    def test_docker_compose_refuses_it_without_a_secret(self) -> None:
        done = self.config({name: one for name, one in SECRETS.items() if name != "WARREN_SECRET"})

        assert done.returncode != 0  # 1 in version 1, 15 in version 2
        assert "WARREN_SECRET" in done.stderr

    @pytest.mark.parametrize(
        ("files", "required"),
        [(COMPOSE, {*SECRETS}), (OF_NODES, {*SECRETS, *NODES}), (ON_POSTGRESQL, {*SECRETS})],
        ids=SETS,
    )
    def test_no_secret_has_a_default(self, files: Sequence[Path], required: set[str]) -> None:
        asked = asked_by(files)

        assert {name for name, default in asked.items() if default is None} == required
        assert not {
            name: default
            for name, default in asked.items()
            if default and re.search("SECRET|PASSWORD|URL|WEBHOOK", name)
        }

    @each(is_ours)
    def test_commands_are_real_ones(self, service: Service) -> None:
        parse_command(service.command)

    @each(lambda one: is_ours(one) and not one.is_one_shot)
    def test_health_checks_are_real_commands(self, service: Service) -> None:
        assert service.healthcheck[0] == "warren"
        parse_command(service.healthcheck[1:])

    @each(is_ours)
    def test_variables_are_settings_and_their_values_right(
        self, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)

        settings_of(service.environment, monkeypatch)

        assert service.environment.keys() <= variables().keys()

    def test_what_a_person_may_set_is_a_setting_or_a_password(self) -> None:
        asked = asked_by(OF_NODES)

        assert ours(asked) <= variables().keys()
        assert all(name.endswith("_PASSWORD") for name in asked.keys() - variables().keys())

    @each(lambda one: is_ours(one) and one.command[0] in {"executor", "gateway"})
    def test_what_receives_runs_can_write_its_logs_and_its_state(self, service: Service) -> None:
        folders = {target for _, target in service.volumes}

        assert {"/var/lib/warren/logs", "/var/lib/warren/state"} <= folders

    def test_executors_never_see_the_database_nor_the_master_secret(
        self, services: dict[str, Service]
    ) -> None:
        found = executors(services)

        assert found
        for hidden in ("WARREN_DATABASE_URL", "WARREN_SECRET", "WARREN_SECRET_PREVIOUS"):
            assert all(hidden not in one.environment for one in found)

    def test_each_kind_of_process_has_an_account_of_the_broker_of_its_own(
        self, services: dict[str, Service]
    ) -> None:
        found = {
            one.name: set(re.findall(r"://([^:]+):", one.environment["WARREN_BROKER_URL"]))
            for one in services.values()
            if "WARREN_BROKER_URL" in one.environment
        }
        users = {name: one.pop() for name, one in found.items() if len(one) == 1}

        assert users == {
            "scheduler-1": "scheduler",
            "scheduler-2": "scheduler",
            "console": "console",
            "api": "console",
            "gateway": "executor-examples",
            "executor-1": "executor-examples",
            "executor-2": "executor-examples",
        }

    @each(lambda _: True)
    def test_containers_can_gain_nothing_and_write_nowhere_else(self, service: Service) -> None:
        kept = service.confinement

        assert kept["cap_drop"] == ["ALL"]
        assert "cap_add" not in kept
        assert "privileged" not in kept
        assert kept["security_opt"] == ["no-new-privileges:true"]
        assert kept["read_only"] is True
        assert kept["mem_limit"]
        assert kept["pids_limit"]
        assert all("size=" in place for place in kept["tmpfs"])
        assert service.is_warren or kept["user"] not in ("root", "0")

    def test_each_executor_has_an_address_and_a_journal_of_its_own(self) -> None:
        found = executors(SERVICES)
        addresses = {parse_command(one.command).params["address"] for one in found}
        journals = {
            source
            for one in found
            for source, target in one.volumes
            if target == "/var/lib/warren/state"
        }

        assert len(addresses) == len(journals) == len(found) == 2

    @each(lambda one: not one.is_one_shot)
    def test_what_stays_is_watched_and_started_again(self, service: Service) -> None:
        assert service.restart == "unless-stopped"
        assert service.healthcheck

    def test_what_is_waited_for_can_come_true(self, services: dict[str, Service]) -> None:
        for one in services.values():
            for name, condition in one.depends_on.items():
                once = condition == "service_completed_successfully"
                assert once == services[name].is_one_shot, f"{one.name} waits for {name}"

    def test_containers_get_the_time_that_they_need_to_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for one in executors(SERVICES):
            settings = settings_of(one.environment, monkeypatch)
            needed = settings.drain_seconds + settings.grace_seconds + 10
            assert one.stop_grace_seconds >= needed

    def test_rabbitmq_takes_no_message_that_warren_would_drop_at_once(self) -> None:
        found = re.findall(
            r"^(max_message_size|frame_max) = (\d+)$",
            (ROOT / "deploy/rabbitmq/warren.conf").read_text(),
            re.MULTILINE,
        )

        limits = {name: int(number) for name, number in found}
        assert BODY_LIMIT < limits["max_message_size"] <= 2 * BODY_LIMIT
        assert HEADER_LIMIT < limits["frame_max"] <= 16_384

    @each(lambda one: not one.is_warren)
    def test_images_cannot_change_under_their_tag(self, service: Service) -> None:
        assert PINNED.fullmatch(service.image)

    def test_each_node_has_its_own_data_and_is_told_to_everybody(self) -> None:
        services = SETS["of nodes"]
        for kind, setting in (
            ("broker", "WARREN_BROKER_URL"),
            ("database", "WARREN_DATABASE_URL"),
        ):
            nodes = [kind, f"{kind}-2", f"{kind}-3"]
            data = {services[node].volumes[0][0] for node in nodes}
            told = [
                re.findall(r"@([\w-]+):", one.environment[setting])
                for one in services.values()
                if setting in one.environment
            ]

            assert data == set(nodes)
            assert told
            assert all(hosts == nodes for hosts in told)


class TestDockerfile:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()

    def words(self, instruction: str) -> list[list[str]]:
        return [line.split()[1:] for line in self.lines if line.startswith(f"{instruction} ")]

    def test_it_does_not_run_as_root(self) -> None:
        assert self.words("USER")[-1] == ["warren"]

    def test_no_other_process_keeps_the_settings_in_its_environment(self) -> None:
        entry = json.loads(" ".join(self.words("ENTRYPOINT")[-1]))

        assert entry == ["warren"]
        assert not [one.name for one in SERVICES.values() if "init" in one.confinement]

    def test_images_cannot_change_under_their_tag(self) -> None:
        stages = [words[-1] for words in self.words("FROM") if "AS" in words]
        given = {
            f"${name}": image
            for [word] in self.words("ARG")
            for name, _, image in [word.partition("=")]
        }
        images = [given.get(words[0], words[0]) for words in self.words("FROM")]
        foreign = [image for image in images if image not in stages]

        assert foreign
        assert all(PINNED.fullmatch(image) for image in foreign)

    def test_its_variables_are_settings(self) -> None:
        names = {word.partition("=")[0] for line in self.words("ENV") for word in line}

        assert ours(names)
        assert ours(names) <= variables().keys()

    def allowed(self) -> set[str]:
        """Return the files and folders that the builder gets."""
        lines = (ROOT / ".dockerignore").read_text().splitlines()
        assert lines[0] == "*"
        return {line[1:] for line in lines if line[0] == "!"}

    def test_what_it_copies_is_there_and_reaches_the_builder(self) -> None:
        allowed = self.allowed()
        for *sources, _ in self.words("COPY"):
            for source in sources if not sources[0].startswith("--from") else ():
                path = Path(source)
                assert (ROOT / path).exists()
                assert path == Path() or allowed & {str(one) for one in (path, *path.parents)}

    def test_every_package_reaches_the_builder(self) -> None:
        allowed = self.allowed()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        found = project["tool"]["setuptools"]["packages"]["find"]["include"]
        packages = {pattern.removesuffix("*") for pattern in found}
        packages |= {link.name for link in (ROOT / "warren").iterdir() if link.is_symlink()}

        assert packages | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"} <= allowed

    def test_compose_mounts_and_finds_what_the_image_has(self) -> None:
        text = "\n".join(self.lines)

        for one in SERVICES.values():
            if one.is_warren:
                for _, target in one.volumes:
                    assert target == "/jobs" or target in text, f"{one.name}: {target}"


class TestUnits:
    def lines(self, path: Path) -> list[tuple[str, str]]:
        text = path.read_text()
        assert re.findall(r"^\[(\w+)\]$", text, re.MULTILINE) == ["Unit", "Service", "Install"]
        return re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE)

    def unit(self, path: Path) -> dict[str, str]:
        return dict(self.lines(path))

    def environment(self, path: Path) -> dict[str, str]:
        given = [value for name, value in self.lines(path) if name == "Environment"]
        return dict(each.partition("=")[::2] for line in given for each in line.split())

    def words(self, path: Path) -> list[str]:
        values = {"%i": "reports-1", "${EXECUTOR_APP}": "reports", "$EXECUTOR_SOURCES": "a.py b"}
        line = self.unit(path)["ExecStart"]
        for name, value in values.items():
            line = line.replace(name, value)
        program, *words = shlex.split(line)
        assert program == "/opt/warren/bin/warren"
        return words

    def test_there_is_one_for_each_kind_of_process(self) -> None:
        kinds = {self.words(path)[0] for path in UNITS}

        assert kinds == {"scheduler", "executor", "console", "api", "gateway"}

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_commands_are_real_ones(self, path: Path) -> None:
        parse_command(self.words(path))

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_it_comes_back(self, path: Path) -> None:
        assert self.unit(path)["Restart"] == "always"

    def test_what_people_and_programs_read_gives_way_to_what_fires(self) -> None:
        weights = {path.name: self.unit(path).get("CPUWeight", "100") for path in UNITS}

        assert {name for name, weight in weights.items() if weight == "20"} == {
            "warren-console.service",
            "warren-api.service",
        }
        assert set(weights.values()) == {"20", "100"}

    def test_scheduler_console_and_jobs_have_a_user_each(self) -> None:
        users = {
            path.name: self.unit(path).get("User") or self.environment(path)["WARREN_JOB_USER"]
            for path in UNITS
        }

        assert users == {
            "warren-scheduler.service": "warren-scheduler",
            "warren-console.service": "warren-console",
            "warren-api.service": "warren-api",
            "warren-gateway.service": "warren-gateway",
            "warren-executor@.service": "warren-executor",
        }

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_secrets_come_as_credentials_and_all_else_is_a_setting(self, path: Path) -> None:
        loaded = {v.partition(":")[0] for n, v in self.lines(path) if n == "LoadCredential"}
        environment = self.environment(path)

        taken = {name: value for name, value in environment.items() if "_FILE" in name}
        assert taken == {f"WARREN_{name.upper()}_FILE": f"%d/{name}" for name in loaded}
        assert environment.keys() <= variables().keys()
        assert not any(f"WARREN_{name.upper()}" in environment for name in secret_names())

    def test_no_executor_gets_what_is_the_schedulers(self) -> None:
        environment = self.environment(ROOT / "deploy/systemd/warren-executor@.service")

        assert {name for name in environment if name.endswith("_FILE")} == {
            "WARREN_APP_SECRET_FILE",
            "WARREN_BROKER_URL_FILE",
        }

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_its_exposure_is_low(self, path: Path) -> None:
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert found, done.stdout + done.stderr
        assert float(found[1]) <= 5

    @pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
    def test_systemd_understands_every_line(self) -> None:
        done = subprocess.run(
            ["systemd-analyze", "verify", *map(str, UNITS)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        complaints = [line for line in done.stderr.splitlines() if "deploy/systemd" in line]
        assert complaints == []

    def test_an_executor_drains_before_its_jobs_are_told(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unit = self.unit(ROOT / "deploy/systemd/warren-executor@.service")
        example = dict(read_example(ROOT / "deploy/systemd/executor.env.example"))
        given = {name: value for name, value in example.items() if name in variables() and value}

        settings = settings_of(given, monkeypatch)

        assert unit["KillMode"] == "mixed"
        needed = settings.drain_seconds + settings.grace_seconds + 10
        assert float(unit["TimeoutStopSec"]) >= needed

    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
    def test_examples_name_settings_and_no_secret(self, path: Path) -> None:
        example = dict(read_example(path))

        assert ours(example) <= variables().keys()
        assert example.keys() - variables().keys() <= {"EXECUTOR_APP", "EXECUTOR_SOURCES"}
        assert not [
            name for name in example if name.removeprefix("WARREN_").lower() in secret_names()
        ]


def read_example(path: Path) -> list[tuple[str, str]]:
    lines = [line.lstrip("#") for line in path.read_text().splitlines()]
    return [(name, value) for name, sign, value in (line.partition("=") for line in lines) if sign]


class TestDefinitions:
    PASSWORDS: ClassVar = {
        "SCHEDULER_PASSWORD": "s" * 16,
        "CONSOLE_PASSWORD": "c" * 16,
        "EXECUTOR_PASSWORD_REPORTS": "r" * 16,
        "EXECUTOR_PASSWORD_MAILS": "m" * 16,
    }

    def make(self, *words: str, **passwords: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(DEFINITIONS), *words],
            env=passwords,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def test_each_user_has_the_rights_that_it_needs(self) -> None:
        done = self.make("--app", "reports", "--app", "mails", **self.PASSWORDS)

        made = json.loads(done.stdout)
        rights = {one["user"]: one for one in made["permissions"]}
        assert set(rights) == {"scheduler", "console", "executor-reports", "executor-mails"}
        assert rights["console"]["write"] == r"^warren\.(ask$|answer\.console-)"
        assert rights["executor-mails"] == {
            "user": "executor-mails",
            "vhost": "warren",
            "configure": "^$",
            "write": r"^warren\.reply$",
            "read": r"^warren\.(run|cmd)\.mails\.",
        }
        assert all(user["tags"] == [] for user in made["users"])

    def test_no_password_is_in_them(self) -> None:
        hush = {**self.PASSWORDS, "SCHEDULER_PASSWORD": "scheduler-hush-hush"}

        assert "hush" not in self.make("--app", "reports", **hush).stdout

    def test_each_user_has_a_password_of_its_own(self) -> None:
        done = self.make("--app", "reports", "--app", "mails", "--app", "mails", **self.PASSWORDS)

        users = json.loads(done.stdout)["users"]
        assert len(users) == len({user["password_hash"] for user in users}) == 4

    @pytest.mark.parametrize(
        ("words", "passwords", "complaint"),
        [
            (["--app", "X"], {}, "expected app to be a name"),
            (["--app", "a.*"], {}, "expected app to be a name"),
            (["--app", "reports"], {}, "SCHEDULER_PASSWORD to have at least 16 characters"),
            (
                ["--app", "reports"],
                {**PASSWORDS, "CONSOLE_PASSWORD": ""},
                "CONSOLE_PASSWORD to have at least 16 characters",
            ),
            (
                ["--app", "my-app"],
                {**PASSWORDS, "EXECUTOR_PASSWORD_MY_APP": "hush"},
                "EXECUTOR_PASSWORD_MY_APP to have at least 16 characters",
            ),
            (
                ["--app", "reports", "--app", "mails"],
                {"SCHEDULER_PASSWORD": "s" * 16, "EXECUTOR_PASSWORD": "hush" * 16},
                "each app in EXECUTOR_PASSWORD_REPORTS, EXECUTOR_PASSWORD_MAILS; EXECUTOR_PASS",
            ),
            (
                ["--app", "reports", "--app", "mails"],
                {**PASSWORDS, "EXECUTOR_PASSWORD_MAILS": "r" * 16},
                "EXECUTOR_PASSWORD_MAILS to be a password of its own, got that of EXECUTOR_PASS",
            ),
        ],
    )
    def test_what_is_wrong_is_one_line(
        self, words: list[str], passwords: dict[str, str], complaint: str
    ) -> None:
        done = self.make(*words, **passwords)

        assert done.returncode == 1
        [line] = done.stderr.splitlines()
        assert complaint in line
        assert "hush" not in line
