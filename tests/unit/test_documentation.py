"""Settings, commands, log events and documentation agree, and the checks that say so can fail."""

import inspect
import pkgutil
from dataclasses import MISSING, fields
from pathlib import Path

import click
import pytest

from tests.support import documentation
from tests.support.documentation import Event, Row
from warren.broker.messages import Trigger
from warren.cli import root
from warren.executor.fork_server.job_main import script_environment
from warren.executor.handlers.handler_registry import load_handlers
from warren.jobfile.reader import read_job_file
from warren.scheduler.jobs.spec import FIELDS
from warren.settings.settings import KINDS, Settings, variables

ROOT = Path(__file__).parents[2]
PACKAGES = ("admin_web", "broker", "executor", "resources", "scheduler", "sql", "warren")
#: Variables that job processes find in their environment, and that nobody sets.
FOR_JOBS = {
    name
    for name in script_environment(
        Trigger(run_id=1, job_id=1, boot_id="b", kind="CRON", handler="", scheduled_at_ms=0), {}
    )
    if name.startswith("WARREN_")
}
#: Pages for people; each is checked for names that are gone.
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
}


def page(name: str) -> str:
    return PAGES[f"docs/{name}.md"]


def settings_table() -> list[Row]:
    found = documentation.rows(page("settings"))
    return [row for row in found if row.key.startswith("WARREN_")]


def defaults() -> dict[str, str]:
    """Return each setting's default as it is written; those that depend on the machine are not."""
    return {
        f"WARREN_{name.upper()}": str(field.default).lower()
        if isinstance(field.default, bool)
        else str(field.default)
        for field in fields(Settings)
        if (name := field.name) in KINDS and field.default not in (MISSING, None)
    }


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return [
        event
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for event in documentation.events(path.read_text(), path.relative_to(ROOT).as_posix())
    ]


class TestPages:
    def test_every_page_is_there(self) -> None:
        assert {"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"} <= set(PAGES)
        assert {
            f"docs/{name}.md" for name in ("settings", "commands", "jobs", "operations")
        } <= set(PAGES)

    def test_every_relative_link_leads_somewhere(self) -> None:
        assert [
            f"{name}: {target}"
            for name, text in PAGES.items()
            for target in documentation.links(text)
            if not (ROOT / name).parent.joinpath(target).exists()
        ] == []

    def test_every_file_and_folder_that_is_named_is_there(self) -> None:
        folders = [*PACKAGES, "benchmarks", "docs", "examples", "scripts", "tests", ".github"]

        assert [
            f"{name}: {path}"
            for name, text in PAGES.items()
            for path in documentation.source_paths(text, folders)
            if not (ROOT / path).exists()
        ] == []

    @pytest.mark.parametrize("name", PAGES)
    def test_classes_that_it_names_with_their_module_can_be_imported(self, name: str) -> None:
        for path in documentation.class_paths(PAGES[name], PACKAGES):
            assert inspect.isclass(pkgutil.resolve_name(path))

    def test_modules_are_named_as_they_are_imported(self) -> None:
        inner = set(PACKAGES) - {"warren"}
        sources = {
            path.relative_to(ROOT).as_posix(): path.read_text()
            for package in PACKAGES
            for path in (ROOT / package).rglob("*.py")
        }

        assert [
            f"{name}: {module}"
            for name, text in (PAGES | sources).items()
            for module in documentation.bare_modules(text, inner)
        ] == []

    @pytest.mark.parametrize("name", PAGES)
    def test_commands_in_code_blocks_exist(self, name: str) -> None:
        makefile = documentation.targets((ROOT / "Makefile").read_text())

        assert documentation.broken_calls(PAGES[name], root, makefile) == []

    @pytest.mark.parametrize("name", ["README.md", "docs/jobs.md", "docs/scripts.md"])
    def test_job_files_are_right(self, name: str, tmp_path: Path) -> None:
        texts = documentation.blocks(PAGES[name], "yaml")

        assert texts
        for text in texts:
            (tmp_path / "jobs.yaml").write_text(text)
            assert read_job_file(tmp_path / "jobs.yaml", now_ms=0).specs

    @pytest.mark.parametrize("name", ["README.md", "docs/jobs.md"])
    def test_handlers_can_be_loaded(self, name: str, tmp_path: Path) -> None:
        text, *_ = documentation.blocks(PAGES[name], "python")
        (tmp_path / "documented_handlers.py").write_text(text)

        assert list(load_handlers([str(tmp_path / "documented_handlers.py")])) == ["report.daily"]

    @pytest.mark.parametrize("name", PAGES)
    def test_python_is_python_and_imports_what_is_there(self, name: str) -> None:
        assert documentation.broken_python(PAGES[name], "warren") == []

    def test_architecture_is_short_enough_to_be_read(self) -> None:
        assert len(PAGES["ARCHITECTURE.md"].splitlines()) <= 270

    def test_story_of_one_run_is_told_in_functions_that_exist(self) -> None:
        story = documentation.part(PAGES["ARCHITECTURE.md"], "The story of one run")
        calls = documentation.story_calls(story)

        assert len(calls) > 30
        for call in calls:
            assert callable(pkgutil.resolve_name(call)), call


class TestSettings:
    def test_every_setting_is_documented_and_no_other(self) -> None:
        table = settings_table()

        assert documentation.differences("setting", [row.key for row in table], variables()) == []

    def test_documented_defaults_are_the_real_ones(self) -> None:
        table = settings_table()

        assert len(defaults()) > 5
        assert documentation.wrong_defaults(table, defaults()) == []

    def test_no_page_names_a_setting_that_does_not_exist(self) -> None:
        known = set(variables()) | FOR_JOBS

        assert documentation.foreign_variables(PAGES, known) == []

    def test_every_variable_that_a_script_finds_is_documented(self) -> None:
        told = page("scripts")

        assert "WARREN_RUN_ID" in FOR_JOBS
        assert [name for name in FOR_JOBS if f"`{name}`" not in told] == []


class TestCommands:
    def test_every_field_of_a_job_is_documented(self) -> None:
        fields = (field.kind.group or name for name, field in FIELDS.items())

        assert [name for name in fields if f"\n| `{name}` |" not in page("jobs")] == []

    def test_every_command_is_documented_and_no_other(self) -> None:
        parts = documentation.sections(page("commands"))

        assert documentation.differences("command", parts, documentation.leaves(root)) == []

    def test_every_option_is_documented_and_no_other(self) -> None:
        parts = documentation.sections(page("commands"))

        assert documentation.option_differences(parts, documentation.leaves(root)) == []

    def test_every_command_has_an_example(self) -> None:
        assert documentation.without_example(documentation.sections(page("commands"))) == []


class TestEvents:
    def test_every_event_is_documented_and_no_other(self, events: list[Event]) -> None:
        table = documentation.rows(documentation.part(page("operations"), "Log events"))

        assert (
            documentation.differences(
                "event", [row.key for row in table], {event.name for event in events}
            )
            == []
        )

    def test_documented_levels_are_the_real_ones(self, events: list[Event]) -> None:
        table = documentation.rows(documentation.part(page("operations"), "Log events"))

        assert documentation.wrong_levels(table, events) == []

    def test_events_are_constants_that_tell_what_happened(self, events: list[Event]) -> None:
        assert len(events) > 50
        assert documentation.ill_named(events) == []


class TestTheChecksCanFail:
    TABLE = "| setting | type | default |\n|---|---|---|\n| `A_B` | text | `5` |\n"

    def test_name_that_is_missing_gone_or_there_twice_is_found(self) -> None:
        found = documentation.differences("word", ["a", "b", "b"], ["b", "c"])

        assert found == [
            "word b is documented twice",
            "word c is not documented",
            "word a is documented and gone",
        ]

    def test_rows_are_those_whose_first_cell_is_code(self) -> None:
        text = f"{self.TABLE}\n```\n| `C` | x |\n```\n"

        assert documentation.rows(text) == [Row(("`A_B`", "text", "`5`"))]

    def test_wrong_default_is_found(self) -> None:
        table = documentation.rows(self.TABLE)

        assert documentation.wrong_defaults(table, {"A_B": "5"}) == []
        assert documentation.wrong_defaults(table, {"A_B": "6"}) == [
            "A_B: the default is '6', documented is '`5`'"
        ]

    def test_setting_that_does_not_exist_is_found_anywhere(self) -> None:
        pages = {"a.md": "set WARREN_SLOTS and WARREN_SLOT_COUNT"}

        assert documentation.foreign_variables(pages, {"WARREN_SLOTS"}) == [
            "a.md: WARREN_SLOT_COUNT is no setting"
        ]

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("warren jobs nix", "no command nix"),
            ("$ .venv/bin/warren jobs list --nix", "no option --nix"),
            ("sudo warren nix | tail -1", "no command nix"),
            ("A=b warren jobs \\\n    nix", "no command nix"),
            ("make nix", "no target nix"),
        ],
    )
    def test_call_of_what_does_not_exist_is_found(self, line: str, problem: str) -> None:
        [found] = documentation.broken_calls(f"```sh\n{line}\n```", root, {"up"})

        assert found.endswith(problem)

    @pytest.mark.parametrize(
        "line",
        [
            "$ warren jobs trigger x --wait",
            "warren try handlers.py report.daily --param x  # --nix",
            "warren --debug jobs list",
            "make up PYTHON=python3.12",
            "python -m nix --nix",
        ],
    )
    def test_call_of_what_exists_is_no_problem(self, line: str) -> None:
        assert documentation.broken_calls(f"```sh\n{line}\n```", root, {"up"}) == []

    def test_option_that_is_missing_or_gone_is_found(self) -> None:
        command = click.Command("x", params=[click.Option(["--new"])])
        parts = {"warren x": "| `--old` | gone |\n\nnot `--this`, it stands in no table\n"}

        assert documentation.option_differences(parts, {"warren x": command}) == [
            "warren x: --new is not documented",
            "warren x: --old is documented and gone",
        ]

    def test_command_without_an_example_is_found(self) -> None:
        text = "## `warren a`\n```sh\nwarren a --b\n```\n## `warren c`\n```sh\nwarren cd\n```\n"

        assert documentation.without_example(documentation.sections(text)) == [
            "warren c has no example"
        ]

    def test_events_are_found_whatever_the_logger_is_called(self) -> None:
        source = "log.info('a_made')\nself._log.exception('b_lost', x=1)\nother.info('c_sent')\n"

        found = list(documentation.events(source, "m.py"))

        assert found == [Event("a_made", "info", "m.py:1"), Event("b_lost", "error", "m.py:2")]

    @pytest.mark.parametrize("first", ["f'run_{x}'", "name", "'Run lost'", "'lost'", "'run_loss'"])
    def test_event_that_is_no_constant_noun_past_verb_is_found(self, first: str) -> None:
        found = list(documentation.events(f"log.info({first})", "m.py"))

        assert len(documentation.ill_named(found)) == 1

    def test_wrong_level_is_found(self) -> None:
        table = [Row(("`run_lost`", "info"))]
        logged = [Event("run_lost", "error", ""), Event("run_lost", "info", "")]

        assert documentation.wrong_levels(table, logged) == [
            "run_lost is logged as error, info, documented: info"
        ]
        assert documentation.wrong_levels(table, logged[1:]) == []

    def test_link_is_found_with_and_without_its_anchor(self) -> None:
        text = "[a](docs/a.md#b) [c](https://example.com) [d](#e) ![f](f.png)"

        assert documentation.links(text) == ["docs/a.md", "f.png"]

    def test_file_is_found_by_its_path_and_nothing_else_is(self) -> None:
        text = "`sql/ids.py` `sql/runs/` `docs` `/jobs/new` `and/or` [a](docs/a.md)"

        assert documentation.source_paths(text, ["sql", "docs"]) == ["sql/ids.py", "sql/runs/"]

    def test_class_is_found_by_its_path_and_nothing_else_is(self) -> None:
        text = "`sql.runs.Run` `Run` `warren.toml` `os.path.Path` and sql.runs.Run"

        assert documentation.class_paths(text, ["sql", "warren"]) == ["sql.runs.Run"]

    def test_function_of_a_story_is_found_under_its_file(self) -> None:
        text = "prose\n\n    sql/ids.py    a thread\n      Ids.take     first\n      _more\n"

        assert documentation.story_calls(text) == [
            "warren.sql.ids:Ids.take",
            "warren.sql.ids:_more",
        ]

    def test_module_without_its_first_name_is_found_and_files_are_not(self) -> None:
        text = "`sql.runs` `sql.runs.Run` `warren.sql.runs` `sql` `sql.py` `sql/runs.py` sql.runs"

        assert documentation.bare_modules(text, ["sql"]) == ["sql.runs", "sql.runs.Run"]

    def test_blocks_are_those_of_one_language(self) -> None:
        text = "```yaml\na: 1\n```\n```sh\nls\n```\n"

        assert documentation.blocks(text, "yaml") == ["a: 1\n"]

    def test_python_that_is_wrong_or_imports_what_is_gone_is_found(self) -> None:
        code = ["from warren import job", "from warren import jop, job\nimport warren.gone", "1 +"]
        text = "".join(f"```python\n{each}\n```\n" for each in code)

        assert documentation.broken_python(text, "warren") == [
            "there is no warren:jop",
            "there is no warren.gone",
            "invalid syntax: 1 +",
        ]

    def test_part_ends_at_the_next_heading_of_its_rank(self) -> None:
        text = "# t\n## a\none\n### b\ntwo\n## c\nthree\n"

        assert documentation.part(text, "a").split() == ["one", "###", "b", "two"]
