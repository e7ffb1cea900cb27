"""The API's description: what the views are, committed, and only ever growing."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.api import BASE
from tests.support.openapi_changes import broken_promises
from warren.admin_web.api.application import api_description

ROOT = Path(__file__).parents[4]
COMMITTED = json.loads((ROOT / "docs/openapi.json").read_text())
#: As it was when v1 was first promised; replaced when something is added, by what has it too.
PROMISED = json.loads((ROOT / "tests/data/openapi_v1.json").read_text())


def test_the_committed_document_is_what_the_views_are() -> None:
    assert api_description() == COMMITTED, "make openapi"


def test_what_is_served_is_the_committed_document(api: Flask) -> None:
    assert api.test_client().get(f"{BASE}/openapi.json").get_json() == COMMITTED


def test_a_page_shows_every_call_and_every_schema_and_runs_nothing(api: Flask) -> None:
    shown = api.test_client().get(f"{BASE}/docs")
    style = api.test_client().get(f"{BASE}/docs.css")

    page = shown.text
    assert shown.content_type == "text/html; charset=utf-8"
    assert [name for name in COMMITTED["components"]["schemas"] if f'id="{name}"' not in page] == []
    for path, operations in COMMITTED["paths"].items():
        for method, operation in operations.items():
            assert f"<code>{method.upper()} {path}</code>" in page
            assert f'id="{operation["operationId"]}"' in page
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert [target for target in targets if f'id="{target}"' not in page] == []
    assert "<script" not in page
    assert "<style" not in page
    assert "style-src 'self'" in shown.headers["Content-Security-Policy"]
    assert (style.status_code, style.mimetype) == (200, "text/css")


def test_every_route_is_described_once(api: Flask) -> None:
    views = api.extensions["warren_views"]

    described_ids = [
        operation["operationId"]
        for operations in COMMITTED["paths"].values()
        for operation in operations.values()
    ]
    assert sorted(described_ids) == sorted(one.name.replace(".", "_") for one in views)


def test_every_reference_leads_somewhere() -> None:
    schemas = COMMITTED["components"]["schemas"]
    text = json.dumps(COMMITTED)

    wanted = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert wanted <= set(schemas)


def test_every_number_has_a_format_in_which_ids_and_milliseconds_fit() -> None:
    def bare(part: Any) -> list[Any]:
        if isinstance(part, list):
            return [found for one in part for found in bare(one)]
        if not isinstance(part, dict):
            return []
        own = [part] if part.get("type") in ("integer", "number") and "format" not in part else []
        return own + [found for one in part.values() for found in bare(one)]

    assert bare(COMMITTED) == []
    assert COMMITTED["components"]["schemas"]["Run"]["properties"]["id"]["format"] == "int64"


@pytest.mark.parametrize(
    ("body", "field"),
    [("JobBody", "timeout"), ("JobBody", "late_limit"), ("Retry", "delay"), ("CatchUp", "within")],
)
def test_durations_of_a_job_say_their_unit_and_how_else_they_may_be_written(
    body: str, field: str
) -> None:
    told = COMMITTED["components"]["schemas"][body]["properties"][field]["description"]

    assert told == "Seconds; a duration such as `10m` is taken too."


def test_the_constants_of_generated_clients_are_told_apart() -> None:
    """Go has one space of names for the choices of all enums."""
    schemas = COMMITTED["components"]["schemas"]
    enums = {name: schema for name, schema in schemas.items() if "enum" in schema}
    names = [name for schema in enums.values() for name in schema.get("x-enum-varnames", ())]

    assert len(names) == sum(len(schema["enum"]) for schema in enums.values())
    assert len(names) == len(set(names))
    assert [name for name in names if not name.isidentifier()] == []


def test_no_schema_has_the_name_of_a_function_that_makes_another_in_generated_go() -> None:
    names = set(COMMITTED["components"]["schemas"])

    assert [name for name in names if f"New{name}" in names] == []


def test_bodies_say_that_they_have_no_other_fields() -> None:
    schemas = COMMITTED["components"]["schemas"]
    bodies = {
        schema["$ref"].rpartition("/")[2]
        for operations in COMMITTED["paths"].values()
        for operation in operations.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
        if "$ref" in (schema := content["schema"])
    }

    assert [name for name in bodies if schemas[name].get("additionalProperties") is not False] == []
    assert "additionalProperties" not in schemas["Run"]


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        ("get", "/api/v1/whoami", {"429"}),
        ("get", "/api/v1/jobs", {"422", "429"}),
        ("put", "/api/v1/jobs/{app}/{name}", {"422", "428", "429"}),
        ("delete", "/api/v1/jobs/{app}/{name}", {"422", "428", "429"}),
        ("get", "/api/v1/openapi.json", set()),
    ],
)
def test_problems_that_programs_have_to_expect_are_described(
    method: str, path: str, statuses: set[str]
) -> None:
    described = COMMITTED["paths"][path][method]["responses"].keys()

    assert {status for status in described if status[0] == "4"} == statuses


def test_nothing_that_was_promised_is_gone_or_newly_needed() -> None:
    assert broken_promises(PROMISED, COMMITTED) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda new: new["paths"].pop("/api/v1/runs"), "get /api/v1/runs is gone"),
        (
            lambda new: new["paths"]["/api/v1/jobs"]["get"]["parameters"].pop(0),
            "get /api/v1/jobs: parameter limit is gone",
        ),
        (
            lambda new: new["paths"]["/api/v1/jobs"]["get"]["parameters"][0].update(required=True),
            "get /api/v1/jobs: parameter limit is needed now",
        ),
        (
            lambda new: new["components"]["schemas"]["Run"]["properties"].pop("status"),
            "Run.status is gone",
        ),
        (
            lambda new: new["components"]["schemas"]["JobBody"].update(required=["author"]),
            "JobBody.author is needed now",
        ),
        (
            lambda new: new["paths"]["/api/v1/jobs"]["get"].update({"x-scope": "admin"}),
            "get /api/v1/jobs needs scope admin",
        ),
    ],
)
def test_a_broken_promise_is_named(change: Callable[[Any], Any], words: str) -> None:
    new = copy.deepcopy(COMMITTED)

    change(new)

    assert words in broken_promises(COMMITTED, new)
