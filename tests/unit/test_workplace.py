"""What a contributor meets first, and the promise that it works: workflow, hooks, README, links."""

import os
import re
import signal
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import documentation

ROOT = Path(__file__).parents[2]
RUNNER = ROOT / "scripts/run-tests"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
}
TARGETS = documentation.targets((ROOT / "Makefile").read_text())


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    return parsed


def commands(workflow: dict[str, Any]) -> list[str]:
    return [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]


class TestReadme:
    def test_it_has_at_most_two_hundred_lines(self) -> None:
        assert len(PAGES["README.md"].splitlines()) <= 200

    def test_it_names_the_command_that_continuous_integration_runs(self) -> None:
        [command] = re.findall(r"^make .*$", (ROOT / ".ci/run").read_text(), re.MULTILINE)

        assert command in list(documentation.calls(PAGES["README.md"]))

    def test_it_leads_to_every_page(self) -> None:
        there = {name for name in PAGES if name not in {"README.md", "docs/index.md"}}

        assert there <= set(documentation.links(PAGES["README.md"]))


class TestSite:
    def test_its_contents_name_every_page_once(self) -> None:
        listed = documentation.contents(PAGES["docs/index.md"])

        assert sorted((ROOT / "docs" / f"{name}.md").resolve() for name in listed) == sorted(
            (ROOT / name).resolve() for name in PAGES if name != "docs/index.md"
        )

    @pytest.mark.parametrize("name", PAGES)
    def test_every_link_to_a_heading_leads_to_one(self, name: str) -> None:
        assert [
            f"{target}#{anchor}"
            for target, anchor in documentation.anchored_links(PAGES[name])
            if anchor
            not in documentation.anchors(
                ((ROOT / name).parent / (target or Path(name).name)).read_text()
            )
        ] == []


class TestWorkflow:
    def test_it_runs_the_tests_of_the_readme_on_every_python_that_is_supported(
        self, workflow: dict[str, Any]
    ) -> None:
        tests = workflow["jobs"]["tests"]
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        oldest = project["requires-python"].removeprefix(">=")

        assert tests["steps"][-1]["run"] == "make tests"
        assert oldest == tests["strategy"]["matrix"]["python"][0]
        assert {"3.11", "3.12", "3.13"} <= set(tests["strategy"]["matrix"]["python"])

    def test_it_runs_the_tests_on_every_debian_of_make_matrix(
        self, workflow: dict[str, Any]
    ) -> None:
        debian = workflow["jobs"]["debian"]
        makefile = (ROOT / "Makefile").read_text()
        wanted = re.search(r"^MATRIX \?= (.*)$", makefile, re.MULTILINE)
        assert wanted

        pairs = [(row["suite"], row["database"]) for row in debian["strategy"]["matrix"]["include"]]

        assert debian["steps"][-1]["run"] == "make tests"
        assert [
            (suite, base or "mariadb")
            for suite, _, base in (one.partition("/") for one in wanted[1].split())
        ] == pairs

    def test_every_target_that_it_calls_exists(self, workflow: dict[str, Any]) -> None:
        called = [line.split()[1] for line in commands(workflow) if line.startswith("make ")]

        assert {"lint", "tests", "release-check", "docs", "coverage"} <= set(called)
        assert set(called) <= TARGETS

    def test_it_checks_for_a_release_each_night_and_for_a_tag_whatever_is_pushed(
        self, workflow: dict[str, Any]
    ) -> None:
        when = workflow["jobs"]["release"]["if"]
        starts = workflow[True]  # what YAML makes of `on`

        assert starts["schedule"]
        assert starts["push"]["tags"]
        assert "'schedule'" in when
        assert "'refs/tags/'" in when
        assert "github.event_name" in workflow["concurrency"]["group"]

    def test_it_may_only_read_the_repository(self, workflow: dict[str, Any]) -> None:
        assert workflow["permissions"] == {"contents": "read"}


class TestHooks:
    def test_they_run_the_tools_of_make_lint_from_the_environment(self) -> None:
        config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
        recipe = (ROOT / "Makefile").read_text()

        tools = [hook["entry"].split()[0] for repo in config["repos"] for hook in repo["hooks"]]

        assert set(tools) == {".venv/bin/ruff", ".venv/bin/mypy"}
        assert all(f"$(BIN)/{Path(tool).name}" in recipe for tool in tools)


class TestMakefile:
    def test_make_up_applies_the_examples_to_an_empty_database_only(self) -> None:
        recipe = (ROOT / "Makefile").read_text().partition("\nup:")[2].partition("\n\n")[0]

        assert "--seed examples/jobs.yaml" in recipe
        assert "--apply" not in recipe

    def test_make_tests_runs_every_folder_of_tests(self) -> None:
        makefile = (ROOT / "Makefile").read_text()
        others = re.search(r"^OTHER_TESTS := (.*)$", makefile, re.MULTILINE)
        assert others

        there = {path.relative_to(ROOT).parts[:2] for path in ROOT.glob("tests/**/test_*.py")}

        assert {"tests/unit", *others[1].split()} == {"/".join(parts) for parts in there}


class TestRunner:
    """`scripts/run-tests`, with a shell in the place of pytest."""

    def test_what_a_killed_run_left_is_removed_by_the_next(self, tmp_path: Path) -> None:
        killed = run_tests(tmp_path, "kill -9 $PPID")
        [left] = tmp_path.iterdir()

        run = run_tests(tmp_path, "true")

        assert (killed.returncode, run.returncode) == (-signal.SIGKILL, 0)
        assert left.name.startswith("warren-tests.")
        assert list(tmp_path.iterdir()) == []

    def test_what_a_run_at_work_and_a_failed_one_wrote_stays(self, tmp_path: Path) -> None:
        failed = run_tests(tmp_path, "exit 1")
        kept = {tmp_path / Path(failed.stdout.split()[-1])}

        run = run_tests(tmp_path, f'{RUNNER} /bin/true && ls -d "$TMPDIR"/warren-tests.*')

        assert (failed.returncode, run.returncode) == (1, 0)
        at_work = set(map(Path, run.stdout.split()))
        assert len(at_work - kept) == 1
        assert set(tmp_path.iterdir()) == kept < at_work


def run_tests(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    pytest_ = folder.parent / f"{folder.name}-pytest"
    pytest_.write_text(f"#!/bin/sh\n{script}\n")
    pytest_.chmod(0o700)
    env = os.environ | {"TMPDIR": str(folder)}
    return subprocess.run([RUNNER, pytest_], env=env, capture_output=True, text=True, check=False)


class TestTemplates:
    @pytest.mark.parametrize(
        "path", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/[bf]*.yml")), ids=lambda path: path.stem
    )
    def test_each_asks_for_something_that_must_be_answered(self, path: Path) -> None:
        form = yaml.safe_load(path.read_text())

        assert form["name"]
        assert form["description"]
        assert any(each.get("validations", {}).get("required") for each in form["body"])


class TestTheChecksCanFail:
    def test_headings_become_the_anchors_of_the_repository_and_the_site(self) -> None:
        text = (
            "# A `b` c\n## What Warren promises, and what not\n```\n# no\n```\n## Same\n## Same\n"
        )

        assert documentation.anchors(text) == {
            "a-b-c",
            "what-warren-promises-and-what-not",
            "same",
            "same-1",
        }

    def test_links_to_headings_are_found_here_and_on_other_pages(self) -> None:
        text = "[a](jobs.md#routes) [b](#here) [c](jobs.md) [d](https://example.com/x#y)"

        assert documentation.anchored_links(text) == [("jobs.md", "routes"), ("", "here")]

    def test_contents_are_the_pages_of_all_lists(self) -> None:
        text = "```{toctree}\n:caption: A\n\njobs\n```\n\n```{toctree}\nOverview <../README>\n```\n"

        assert documentation.contents(text) == ["jobs", "../README"]
