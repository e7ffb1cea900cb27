"""Dockerfile, docker-compose.yml and units fit the real command line and the real settings."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from tests.support import compose
from tests.support.compose import Service
from tests.support.processes import basic_environment
from warren.cli import root
from warren.settings import Settings, read_settings, variables

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
EXAMPLES = sorted((ROOT / "deploy/systemd").glob("*.env.example"))
DEFINITIONS = ROOT / "deploy/rabbitmq/make_definitions.py"
SECRETS = {
    "WARREN_SECRET": "s" * 32,
    "DATABASE_PASSWORD": "d" * 32,
    "SCHEDULER_PASSWORD": "p" * 32,
    "EXECUTOR_PASSWORD": "e" * 32,
}
SERVICES = compose.read_services(COMPOSE, SECRETS)
OURS = [one for one in SERVICES.values() if one.is_warren and not one.entrypoint]
LONG_RUNNING = [one for one in SERVICES.values() if not one.is_one_shot]
EXECUTORS = [one for one in OURS if one.command[0] == "executor"]


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
    def config(self, given: dict[str, str]) -> subprocess.CompletedProcess[str]:
        program = shutil.which("docker-compose")
        if program is None:
            reason = "docker-compose is not installed: make services"
            pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
        return subprocess.run(
            [program, "--file", str(COMPOSE), "config", "--quiet"],
            env=basic_environment() | given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def test_docker_compose_accepts_it(self) -> None:
        done = self.config(SECRETS)

        assert (done.returncode, done.stderr) == (0, "")

    def test_docker_compose_refuses_it_without_a_secret(self) -> None:
        done = self.config({name: one for name, one in SECRETS.items() if name != "WARREN_SECRET"})

        assert done.returncode == 1
        assert "WARREN_SECRET" in done.stderr

    def test_no_secret_has_a_default(self) -> None:
        asked = compose.variables(COMPOSE.read_text())

        assert {name for name, default in asked.items() if default is None} == set(SECRETS)
        assert not {
            name: default
            for name, default in asked.items()
            if default and re.search("SECRET|PASSWORD|URL|WEBHOOK", name)
        }

    @pytest.mark.parametrize("service", OURS, ids=lambda one: one.name)
    def test_commands_are_real_ones(self, service: Service) -> None:
        parse_command(service.command)

    @pytest.mark.parametrize(
        "service", [one for one in OURS if not one.is_one_shot], ids=lambda one: one.name
    )
    def test_health_checks_are_real_commands(self, service: Service) -> None:
        assert service.healthcheck[0] == "warren"
        parse_command(service.healthcheck[1:])

    @pytest.mark.parametrize("service", OURS, ids=lambda one: one.name)
    def test_variables_are_settings_and_their_values_right(
        self, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)

        settings_of(service.environment, monkeypatch)

        assert service.environment.keys() <= variables().keys()

    def test_what_a_person_may_set_is_a_setting_or_a_password(self) -> None:
        asked = compose.variables(COMPOSE.read_text())

        assert ours(asked) <= variables().keys()
        assert all(name.endswith("_PASSWORD") for name in asked.keys() - variables().keys())

    def test_executors_never_see_the_database(self) -> None:
        assert EXECUTORS
        assert all("WARREN_DATABASE_URL" not in one.environment for one in EXECUTORS)

    def test_each_executor_has_an_address_and_a_journal_of_its_own(self) -> None:
        addresses = {parse_command(one.command).params["address"] for one in EXECUTORS}
        journals = {
            source
            for one in EXECUTORS
            for source, target in one.volumes
            if target == "/var/lib/warren/state"
        }

        assert len(addresses) == len(journals) == len(EXECUTORS) == 2

    def test_everything_that_stays_is_watched_and_started_again(self) -> None:
        assert {one.restart for one in LONG_RUNNING} == {"unless-stopped"}
        assert all(one.healthcheck for one in LONG_RUNNING)

    def test_what_is_waited_for_can_come_true(self) -> None:
        for one in SERVICES.values():
            for name, condition in one.depends_on.items():
                once = condition == "service_completed_successfully"
                assert once == SERVICES[name].is_one_shot, f"{one.name} waits for {name}"

    def test_containers_get_the_time_that_they_need_to_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for one in EXECUTORS:
            settings = settings_of(one.environment, monkeypatch)
            needed = settings.drain_seconds + settings.grace_seconds + 10
            assert one.stop_grace_seconds >= needed

    def test_images_are_of_a_known_version(self) -> None:
        foreign = [one.image for one in SERVICES.values() if not one.is_warren]

        assert foreign
        assert all(re.search(r":\d+\.\d+", image) for image in foreign)


class TestDockerfile:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()

    def words(self, instruction: str) -> list[list[str]]:
        return [line.split()[1:] for line in self.lines if line.startswith(f"{instruction} ")]

    def test_it_does_not_run_as_root(self) -> None:
        assert self.words("USER")[-1] == ["warren"]

    def test_a_first_process_looks_after_the_others(self) -> None:
        entry = json.loads(" ".join(self.words("ENTRYPOINT")[-1]))

        assert entry == ["tini", "--", "warren"]
        assert any("install" in line and " tini " in f"{line} " for line in self.lines)

    def test_its_variables_are_settings(self) -> None:
        names = {word.partition("=")[0] for line in self.words("ENV") for word in line}

        assert ours(names)
        assert ours(names) <= variables().keys()

    def test_what_it_copies_is_there(self) -> None:
        for *sources, _ in self.words("COPY"):
            if not sources[0].startswith("--from"):
                assert all((ROOT / source).exists() for source in sources)

    def test_every_package_reaches_the_builder(self) -> None:
        allowed = {
            line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
        }
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        packages = {name.partition(".")[0] for name in project["tool"]["setuptools"]["packages"]}

        assert packages | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"} <= allowed

    def test_compose_mounts_and_finds_what_the_image_has(self) -> None:
        text = "\n".join(self.lines)

        for one in SERVICES.values():
            if one.is_warren:
                for _, target in one.volumes:
                    assert target == "/jobs" or target in text, f"{one.name}: {target}"


class TestUnits:
    def unit(self, path: Path) -> configparser.SectionProxy:
        parser = configparser.RawConfigParser(strict=True, comment_prefixes=("#",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(path)
        assert parser.sections() == ["Unit", "Service", "Install"]
        return parser["Service"]

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

        assert kinds == {"scheduler", "executor", "console"}

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_commands_are_real_ones(self, path: Path) -> None:
        parse_command(self.words(path))

    @pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
    def test_it_does_not_run_as_root_and_comes_back(self, path: Path) -> None:
        unit = self.unit(path)

        assert unit["User"] == "warren"
        assert unit["Restart"] == "always"

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
        assert not [name for name, value in example.items() if value and "URL" in name]
        assert example["WARREN_SECRET"] == ""


def read_example(path: Path) -> list[tuple[str, str]]:
    lines = [line.lstrip("#") for line in path.read_text().splitlines()]
    return [(name, value) for name, sign, value in (line.partition("=") for line in lines) if sign]


class TestDefinitions:
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
        good = {"SCHEDULER_PASSWORD": "s" * 16, "EXECUTOR_PASSWORD": "e" * 16}

        done = self.make("--app", "reports", "--app", "mails", **good)

        made = json.loads(done.stdout)
        rights = {one["user"]: one for one in made["permissions"]}
        assert set(rights) == {"scheduler", "executor-reports", "executor-mails"}
        assert rights["executor-mails"] == {
            "user": "executor-mails",
            "vhost": "warren",
            "configure": "^$",
            "write": r"^warren\.reply$",
            "read": r"^warren\.(run|cmd)\.mails\.",
        }
        assert all(user["tags"] == [] for user in made["users"])

    def test_no_password_is_in_them(self) -> None:
        good = {"SCHEDULER_PASSWORD": "scheduler-hush-hush", "EXECUTOR_PASSWORD": "e" * 16}

        assert "hush" not in self.make("--app", "reports", **good).stdout

    @pytest.mark.parametrize(
        ("words", "passwords", "complaint"),
        [
            (["--app", "X"], {}, "expected app to be a name"),
            (["--app", "a.*"], {}, "expected app to be a name"),
            (["--app", "reports"], {}, "SCHEDULER_PASSWORD to have at least 16 characters"),
            (
                ["--app", "reports"],
                {"SCHEDULER_PASSWORD": "s" * 16, "EXECUTOR_PASSWORD": "hush"},
                "EXECUTOR_PASSWORD to have at least 16 characters",
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
