"""The rules of the packages' layout hold, and the checks that say so can fail."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from setuptools import find_packages

from tests.support import architecture
from tests.support.architecture import CodeBase
from warren.scheduler.schedules.registry import KINDS, CronSchedule, NoSchedule
from warren.sql.models.job_tables import DeliveryGuarantee

ROOT = Path(__file__).parents[2]

#: For each package, the packages of ours that it may import.
ARROWS = {
    "warren": {"admin_web", "scheduler", "executor", "sql", "broker", "resources"},
    "admin_web": {"scheduler", "sql", "broker", "resources"},
    "scheduler": {"sql", "broker", "resources"},
    "executor": {"broker", "resources"},
    "sql": set(),
    "broker": set(),
    "resources": set(),
}

NEVER_INSTALLED = {"tests", "benchmarks", "examples"}

#: For each library with one home, the prefixes of the modules that may import it.
HOMES = {
    "pika": ["broker.rabbitmq."],
    "sqlalchemy": ["sql."],
    "pymysql": ["sql.dialects."],
    "psycopg": ["sql.dialects."],
    "alembic": ["sql."],
    "croniter": ["scheduler.cron.expression"],
    "holidays": ["scheduler.calendars.calendar_spec"],
    "icalendar": ["scheduler.calendars.feeds"],
    "recurring_ical_events": ["scheduler.calendars.feeds"],
    "jinja2": ["scheduler.expressions", "admin_web"],
    "psutil": ["executor."],
    "aiohttp": ["executor.gateway."],
    "httpx": ["executor.builtin."],
    "httpcore": ["executor.builtin."],
    "flask": ["admin_web"],
    "flask_babel": ["admin_web"],
    "flask_wtf": ["admin_web"],
    "wtforms": ["admin_web"],
    "waitress": ["admin_web"],
    "prometheus_client": ["admin_web"],
    "argon2": ["scheduler.commands.passwords"],
    "botocore": ["scheduler.log_store.s3_store"],
    "authlib": ["admin_web.access.openid_connect"],
    "joserfc": ["admin_web.access.openid_connect"],
    "cryptography": ["admin_web.access.openid_connect"],
}

#: Where what a row says of its schedule may be written out; all others ask the kind's class.
SCHEDULE_KINDS = {kind: ["scheduler.schedules."] for kind in KINDS} | {
    CronSchedule.kind: ["scheduler.schedules.", "sql.run_status", "resources.runs"],
    NoSchedule.kind: ["sql.models.job_tables"],
}

#: Where what a row says of its delivery guarantee may be written out.
GUARANTEES = {guarantee.value: ["sql.models.job_tables"] for guarantee in DeliveryGuarantee}

#: Sessions are passed around, so their type is known outside their home.
LENT = {("sqlalchemy.orm", "Session"): {"scheduler", "admin_web", "warren"}}

#: Where a job process begins, and what it may load besides Python's own library.
JOB_ROOTS = ["executor.fork_server.zygote", "executor.fork_server.job_main"]
JOB_MAY_LOAD = [
    "executor",
    "executor.",
    "broker",
    "broker.durations",
    "broker.messages",
    "broker.process_use",
    "broker.reasons",
    "broker.stored_reasons",
    "resources",
    "resources.misfits",
    "resources.spelling",
    "msgspec",
]

#: Who looks at the environment, and why.
ENVIRONMENT_READERS = {
    "warren.settings.settings": "settings come from it, and variables of OpenTelemetry",
    "warren.settings.setting_rules": "TZ is this machine's time zone, the default of a setting",
    "executor.fork_server.termination": "it marks what an executor starts, to find it later",
    "executor.fork_server.confinement": "it takes settings out, and finds the user's HOME",
    "executor.fork_server.linux": "it takes variables out of memory too",
    "executor.fork_server.process_state": "a job process restores it between two runs",
    "executor.fork_server.interpreter": "it gives the dict behind it, compared between two runs",
    "executor.fork_server.job_main": "a script gets it, with what tells which run it is",
    "executor.builtin.command": "a program gets it, with what tells which run it is",
    "warren.wiring.processes": "NOTIFY_SOCKET is systemd's, and tells where it listens",
}


#: Fixtures that start a service.
SERVICES = {
    *("rabbitmq", "own_rabbitmq", "vhost", "mariadb", "own_mariadb", "mariadb_url", "mysql_server"),
    *("postgresql", "postgresql_schema_url"),
    *("database_url", "any_database_url"),
}


@pytest.fixture(scope="module")
def tests() -> dict[str, ast.Module]:
    folder = ROOT / "tests"
    return {
        str(path.relative_to(folder)): ast.parse(path.read_text()) for path in folder.rglob("*.py")
    }


@pytest.fixture(scope="module")
def unit_tests(tests: Mapping[str, ast.Module]) -> dict[str, ast.Module]:
    return {name: tree for name, tree in tests.items() if name.startswith("unit/")}


@pytest.fixture(scope="module")
def code() -> CodeBase:
    return architecture.read_packages(ROOT, ARROWS)


def made_up(**sources: str) -> CodeBase:
    """Build a code base; `a__b` is the module a.b, and a name without `__` is a package."""
    return architecture.parse(
        {name.replace("__", "."): (text, "__" not in name) for name, text in sources.items()}
    )


def test_every_package_is_read(code: CodeBase) -> None:
    on_disk = {package for package in ARROWS if (ROOT / package / "__init__.py").exists()}

    assert {"admin_web", "broker", "executor", "resources", "scheduler", "sql", "warren"} <= on_disk
    assert on_disk == {module.package for module in code.values()}


def test_packages_import_only_what_their_layer_may_know(code: CodeBase) -> None:
    assert architecture.forbidden_arrows(code, ARROWS) == []


def test_our_packages_are_imported_as_parts_of_warren() -> None:
    kept = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    sources = {name: (ROOT / name).read_text() for name in kept.stdout.split()}
    # Parsing all of them takes seconds; the others name none of our packages behind an `import`.
    named = re.compile(
        rf"import.*\b({'|'.join(architecture.INNER)})\b|from ({'|'.join(architecture.INNER)})\b"
    )

    assert [
        bare
        for name, source in sources.items()
        if named.search(source)
        for bare in architecture.bare_imports(name, ast.parse(source))
    ] == []


def test_each_package_is_a_link_of_warren() -> None:
    links = {
        path.name: str(path.readlink()) for path in (ROOT / "warren").iterdir() if path.is_symlink()
    }

    assert links == {package: f"../{package}" for package in architecture.INNER}


def test_coverage_counts_the_files_that_no_test_loads_in_every_package() -> None:
    coverage = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]["run"]

    assert set(coverage["source_dirs"]) == set(ARROWS)  # it follows no links


def test_nothing_installed_needs_what_is_never_installed(code: CodeBase) -> None:
    assert architecture.forbidden_packages(code, NEVER_INSTALLED) == []


def test_no_module_imports_itself_by_a_detour(code: CodeBase) -> None:
    assert architecture.import_cycles(code) == []


def test_arrows_between_sub_packages_go_one_way(code: CodeBase) -> None:
    assert architecture.room_cycles(code) == []


def test_each_sub_package_says_what_it_owns(code: CodeBase) -> None:
    assert architecture.undescribed_rooms(code) == []


def test_no_import_hides_behind_type_checking(code: CodeBase) -> None:
    assert architecture.type_checking_blocks(code) == []


def test_each_library_stays_in_its_home(code: CodeBase) -> None:
    assert architecture.strayed_libraries(code, HOMES, LENT) == []


def test_a_kind_of_schedule_is_named_by_its_own_class_only(code: CodeBase) -> None:
    assert architecture.strayed_words(code, SCHEDULE_KINDS) == []


def test_a_delivery_guarantee_is_named_by_its_enum_only(code: CodeBase) -> None:
    assert architecture.strayed_words(code, GUARANTEES) == []


@pytest.mark.parametrize("root", JOB_ROOTS)
def test_job_process_loads_nothing_heavy(code: CodeBase, root: str) -> None:
    assert root in code
    assert architecture.heavy_imports(code, [root], JOB_MAY_LOAD) == []


def test_front_door_loads_nothing_before_it_is_asked(code: CodeBase) -> None:
    front_door = architecture.top_level(code["warren"])

    assert front_door.tree.body
    assert architecture.heavy_imports({"warren": front_door}, ["warren"], ["warren"]) == []


def test_only_the_settings_read_the_environment(code: CodeBase) -> None:
    assert architecture.environment_reads(code, ENVIRONMENT_READERS) == []
    assert architecture.needless_permissions(code, ENVIRONMENT_READERS) == []


def test_no_test_patches_a_constant(tests: Mapping[str, ast.Module]) -> None:
    found = {
        name: patched
        for name, tree in tests.items()
        if (patched := architecture.patched_constants(name, tree))
    }

    assert found == {}


def test_no_unit_test_needs_a_service(unit_tests: Mapping[str, ast.Module]) -> None:
    assert [
        found
        for name, tree in unit_tests.items()
        for found in architecture.asked_fixtures(name, tree, SERVICES)
    ] == []


class TestWheel:
    @pytest.fixture
    def settings(self) -> Mapping[str, object]:
        settings: Mapping[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
            "tool"
        ]["setuptools"]
        return settings

    def test_it_holds_every_package_and_no_other(self, settings: Mapping[str, object]) -> None:
        on_disk = {
            dotted if package == "warren" else f"warren.{dotted}"
            for package in ARROWS
            for path in (ROOT / package).rglob("__init__.py")
            for dotted in [".".join(path.parent.relative_to(ROOT).parts)]
        }

        find = settings["packages"]["find"]  # type: ignore[index]
        found = find_packages(str(ROOT), include=find["include"])

        assert set(found) == on_disk

    def test_it_holds_every_file_that_is_no_source(self, settings: Mapping[str, object]) -> None:
        declared = {
            path
            for package, patterns in settings["package-data"].items()  # type: ignore[attr-defined]
            for pattern in patterns
            for path in ROOT.joinpath(*architecture.place_of(package).split(".")).glob(pattern)
        }
        # What the console's scripts are built of; what is built of it is in the wheel.
        sources = set((ROOT / "admin_web/frontend").rglob("*"))
        on_disk = {
            path
            for package in ARROWS
            for path in (ROOT / package).rglob("*")
            if path.is_file() and path.suffix not in {".py", ".pyc"} and path not in sources
        }

        assert on_disk - declared == set()


class TestChecksThatCanFail:
    @pytest.mark.parametrize(
        "source",
        [
            "import sql.runs",
            "from executor import lanes",
            "import_module('broker.codec')",
            "resources.files('admin_web')",
            "Flask('admin_web', static_folder=None)",
        ],
    )
    def test_name_of_a_users_own_module_is_named(self, source: str) -> None:
        [found] = architecture.bare_imports("a.py", ast.parse(source))

        assert found.startswith("a.py:1: import ")

    def test_arrow_against_the_order_is_named(self) -> None:
        code = made_up(
            sql__runs="from warren.scheduler import planner\n",
            scheduler__planner="import warren.sql.runs\nfrom warren.scheduler import loop\n",
        )

        assert architecture.forbidden_arrows(code, ARROWS) == [
            "sql.runs:1: sql may not import scheduler"
        ]

    def test_arrow_inside_a_function_or_by_text_is_named(self) -> None:
        code = made_up(
            executor__lanes="def f():\n    import warren.sql.runs\n",
            broker__amqp="import importlib\nimportlib.import_module('warren.sql.runs')\n",
        )

        assert architecture.forbidden_arrows(code, ARROWS) == [
            "executor.lanes:2: executor may not import sql",
            "broker.amqp:2: broker may not import sql",
        ]

    def test_import_of_the_tests_is_named(self) -> None:
        code = made_up(sql__runs="from tests.support import ports\n")

        assert architecture.forbidden_packages(code, NEVER_INSTALLED) == [
            "sql.runs:1: tests is never installed"
        ]

    def test_cycle_through_three_modules_is_named_once(self) -> None:
        code = made_up(
            sql="",
            sql__a="from warren.sql import b\n",
            sql__b="def f():\n    from warren.sql.c import g\n",
            sql__c="from . import a\n",
            sql__d="from warren.sql import a\n",
        )

        assert architecture.import_cycles(code) == ["sql.a -> sql.b -> sql.c -> sql.a"]

    def test_package_that_gathers_its_modules_is_no_cycle(self) -> None:
        code = made_up(
            sql="from warren.sql.a import f\n", sql__a="from warren.sql import b\n", sql__b=""
        )

        assert architecture.import_cycles(code) == []

    def test_module_that_takes_a_name_from_its_gathering_package_is_a_cycle(self) -> None:
        code = made_up(sql="from .a import f\n", sql__a="from warren.sql import f\n")

        assert architecture.import_cycles(code) == ["sql -> sql.a -> sql"]

    def test_cycle_between_sub_packages_is_named(self) -> None:
        code = made_up(
            sql__runs__a="from warren.sql.jobs import b\n",
            sql__jobs__b="",
            sql__jobs__c="from warren.sql.runs import d\n",
            sql__runs__d="",
        )

        assert architecture.import_cycles(code) == []
        assert architecture.room_cycles(code) == ["sql.runs -> sql.jobs -> sql.runs"]

    def test_sub_package_without_a_docstring_is_named(self) -> None:
        code = made_up(sql='"""Tables."""', sql__runs="", sql__runs__a="")

        assert architecture.undescribed_rooms(code) == ["sql.runs"]

    @pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING", "t.TYPE_CHECKING"])
    def test_type_checking_block_is_named(self, test: str) -> None:
        code = made_up(sql__a=f"if {test}:\n    import warren.sql.b\n")

        assert architecture.type_checking_blocks(code) == ["sql.a:1: TYPE_CHECKING hides an import"]

    @pytest.mark.parametrize(
        ("module", "source"),
        [
            ("broker__codec", "import pika.exceptions\n"),
            ("scheduler__planner", "from sqlalchemy import select\n"),
            ("scheduler__planner", "from sqlalchemy.orm import Session, sessionmaker\n"),
            ("executor__lanes", "from sqlalchemy.orm import Session\n"),
            ("scheduler__misfire", "def f():\n    import croniter\n"),
            ("scheduler__routing", "import psutil\n"),
            ("warren__up", "from flask import Flask\n"),
        ],
    )
    def test_library_away_from_home_is_named(self, module: str, source: str) -> None:
        code = made_up(**{module: source})

        assert len(architecture.strayed_libraries(code, HOMES, LENT)) == 1

    def test_library_at_home_and_a_lent_session_are_fine(self) -> None:
        code = made_up(
            broker__rabbitmq__publisher="import pika\n",
            sql__engine="import sqlalchemy\n",
            sql__dialects__mysql="import pymysql\n",
            scheduler__planner="from sqlalchemy.orm import Session\n",
        )

        assert architecture.strayed_libraries(code, HOMES, LENT) == []

    def test_word_away_from_home_is_named(self) -> None:
        code = made_up(
            scheduler__schedules__lunar="kind = 'LUNAR'\n",
            scheduler__planner='"""Not LUNAR."""\nif kind == "LUNAR":\n    pass\n',
        )

        assert architecture.strayed_words(code, {"LUNAR": ["scheduler.schedules."]}) == [
            "scheduler.planner:2: LUNAR is at home in scheduler.schedules."
        ]

    @pytest.mark.parametrize(
        "source",
        ["patch.setattr(module, 'LIMIT', 1)", "patch.setattr('a.b._LIMIT', 1, raising=False)"],
    )
    def test_patched_constant_is_named(self, source: str) -> None:
        [found] = architecture.patched_constants("test_a.py", ast.parse(source))

        assert found.startswith("test_a.py:1: ")

    def test_patched_function_is_fine(self) -> None:
        source = "patch.setattr(os, 'write', none)\npatch.setattr('os.write', none)\n"

        assert architecture.patched_constants("test_a.py", ast.parse(source)) == []

    def test_fixture_that_starts_a_service_is_named(self) -> None:
        tree = ast.parse("def test_a(mariadb_url: str, tmp_path) -> None: ...")

        assert architecture.asked_fixtures("test_a.py", tree, SERVICES) == [
            "test_a.py:1: test_a asks for mariadb_url"
        ]

    def test_heavy_library_is_named_wherever_the_job_process_meets_it(self) -> None:
        code = made_up(
            executor="",
            executor__zygote="import os\nfrom warren.executor import child\n",
            executor__child="import msgspec\nfrom warren.broker.messages import Trigger\n",
            broker="from warren.broker import amqp\n",
            broker__messages="import msgspec\n",
            broker__amqp="import pika\n",
        )

        problems = architecture.heavy_imports(code, ["executor.zygote"], JOB_MAY_LOAD)

        assert problems == ["broker loads broker.amqp"]

    def test_import_inside_a_function_is_not_loaded_with_its_module(self) -> None:
        code = made_up(warren="import click\ndef main():\n    from warren import cli\n")

        problems = architecture.heavy_imports(
            {"warren": architecture.top_level(code["warren"])}, ["warren"], ["warren"]
        )

        assert problems == ["warren loads click"]

    def test_light_job_process_is_fine(self) -> None:
        code = made_up(
            executor="",
            executor__zygote="from warren.executor import child\n",
            executor__child="import json\nfrom warren.broker.messages import Trigger\n",
            broker="",
            broker__messages="import msgspec\n",
        )

        assert architecture.heavy_imports(code, ["executor.zygote"], JOB_MAY_LOAD) == []

    @pytest.mark.parametrize(
        "source",
        [
            "import os\nos.environ['A']\n",
            "import os as system\nsystem.getenv('A')\n",
            "from os import environ\n",
        ],
    )
    def test_look_at_the_environment_is_named(self, source: str) -> None:
        code = made_up(sql__engine=source, warren__settings=source)

        problems = architecture.environment_reads(code, {"warren.settings"})

        assert len(problems) == 1
        assert problems[0].startswith("sql.engine:")

    def test_permission_that_nobody_uses_is_named(self) -> None:
        code = made_up(sql__engine="import os\n", warren__settings="import os\nos.environ\n")

        problems = architecture.needless_permissions(code, {"sql.engine", "warren.settings"})

        assert problems == ["sql.engine does not read the environment: take it off the list"]
