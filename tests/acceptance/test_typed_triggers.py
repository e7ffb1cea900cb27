"""`warren jobs trigger --set`, and what handlers with impossible params get, in a line."""

import json
import time
from pathlib import Path

import pytest

from tests.support.command import run_warren
from tests.support.desk import Desk
from tests.support.schemas import SQLiteSchema

LOAD = {
    "$ref": "#/$defs/Load",
    "$defs": {
        "Load": {
            "type": "object",
            "properties": {
                "day": {"type": "string", "format": "date"},
                "parts": {"type": "integer", "minimum": 1, "default": 1},
                "code": {"type": "string", "default": ""},
                "shops": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["day"],
        }
    },
}
TRIGGER = ("jobs", "trigger", "load")


@pytest.fixture
def desk(tmp_path: Path, sqlite_schema: SQLiteSchema) -> Desk:
    """An executor is online whose handler has params."""
    desk = Desk(tmp_path, sqlite_schema)
    desk.rows.executor("one", time.time_ns() // 10**6, json.dumps({"handlers": {"load": LOAD}}))
    desk.rows.job("load", handler="load")
    return desk


def params(desk: Desk, *arguments: str) -> object:
    """Return the params of the run that a trigger plans."""
    [planned] = desk.listed(*TRIGGER, *arguments, "--json")
    [run] = desk.listed("runs", "show", str(planned["id"]), "--json")
    return json.loads(str(run["param"]))


def test_values_are_json_or_else_texts(desk: Desk) -> None:
    given = ["day=2026-12-01", "parts=3", 'code="3"', 'shops=["a", "b=c"]']

    said = params(desk, *(part for value in given for part in ("--set", value)))

    assert said == {"day": "2026-12-01", "parts": 3, "code": "3", "shops": ["a", "b=c"]}


def test_everything_that_does_not_fit_is_told_at_once_and_nothing_is_planned(desk: Desk) -> None:
    given = ("--set", "day=soon", "--set", "parts=0", "--set", "code=7")

    refused = desk.warren(*TRIGGER, *given, status=1)

    assert (
        refused.stderr == 'error: expected day to be date, got: "soon"; expected parts to satisfy '
        "minimum 1, got: 0; expected code to be string, got: 7\n"
    )
    assert desk.listed("runs", "list", "--json") == []


def test_a_param_that_nobody_could_check_is_said_to_be_unchecked(desk: Desk) -> None:
    desk.rows.job("pack", app="warehouse", handler="pack")
    queued = desk.warren("jobs", "trigger", "warehouse/pack", "--set", "shelf=3")

    assert (
        queued.stderr
        == "warning: the param was not checked: no executor of app warehouse is online\n"
    )


def test_a_param_that_is_missing_is_named(desk: Desk) -> None:
    assert desk.refused(*TRIGGER, "--set", "parts=2") == "expected param to have 'day'"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "day"], "expected NAME=VALUE, got: 'day'"),
        (["--set", "=3"], "expected NAME=VALUE, got: '=3'"),
        (["--set", "day=1", "--set", "day=2"], "expected each name once, got: 'day' twice"),
        (["--set", "day=2026-12-01", "--param", "x"], "give either --param or --set"),
    ],
)
def test_what_cannot_be_meant_is_a_wrong_call(desk: Desk, arguments: list[str], words: str) -> None:
    assert words in desk.warren(*TRIGGER, *arguments, status=2).stderr


#: Handlers that no executor starts with, and the line that says why.
WRONG = {
    "def load(context, params: Load, more): pass": "expected handler 'load' to take one argument, "
    "or two with its params, got: (context, params: handlers.Load, more)",
    "def load(context, params): pass": "expected params of handler 'load' to have a type, such as "
    "a dataclass, got: none",
    "def load(context, params: int): pass": "expected params of handler 'load' to have a struct, "
    "dataclass, TypedDict or model as type, got: int",
    "def load(context, params: threading.Lock): pass": "expected params of handler 'load' to have ",
    "def load(context, params: Large): pass": "expected params of handler 'load' to have a JSON "
    "Schema of at most 65,536 bytes, got: ",
}


@pytest.mark.parametrize(("handler", "line"), WRONG.items())
def test_an_impossible_handler_is_refused_in_a_line_that_names_it(
    tmp_path: Path, handler: str, line: str
) -> None:
    (tmp_path / "handlers.py").write_text(
        "import threading\nfrom dataclasses import dataclass, make_dataclass\n"
        "from warren import job\n"
        "@dataclass\nclass Load:\n    day: str\n"
        "Large = make_dataclass('Large', [(f'field_{n}', str, 'x') for n in range(3_000)])\n"
        f"@job\n{handler}\n"
    )

    done = run_warren("jobs", "export", "--from", "handlers.py", folder=tmp_path)

    [refused] = done.stderr.splitlines()
    assert line in refused
    assert "handlers.py:8" in refused
    assert done.returncode == 1
