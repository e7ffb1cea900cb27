"""The API under requests that schemathesis makes of its own description: never an error of ours."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.api import make_api, make_token
from tests.support.console import Clock, add_user
from tests.support.sample_app import add_sample_app
from tests.support.stored_rows import Rows
from warren.sql.accounts.users import Role

ROOT = Path(__file__).parents[3]
schemathesis = pytest.importorskip("schemathesis", reason="it is not installed: make fuzz")
_OPENAPI = pytest.importorskip("schemathesis.specs.openapi.checks")
#: What every answer has to hold to.
CHECKS = [
    pytest.importorskip("schemathesis.checks").not_a_server_error,
    _OPENAPI.content_type_conformance,
    _OPENAPI.response_schema_conformance,
    _OPENAPI.status_code_conformance,
]
#: Names of things that are there, so that not every call ends at what is missing.
NAMES = {"app": "reports", "name": "job", "job": "job", "address": "executor"}


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    rows = Rows(f"sqlite:///{tmp_path_factory.mktemp('api') / 'warren.db'}")
    clock = Clock()
    made = add_sample_app(rows, "reports", lambda name: name, clock.now)
    add_user(rows.database, "admin", Role.ADMINISTRATOR)
    token = make_token(rows.database, clock)
    app = make_api(rows.database, clock)
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    yield schema, NAMES | made.ids, {"Authorization": f"Bearer {token}"}
    rows.database.close()


OPERATIONS = [
    (method.upper(), path)
    for path, operations in json.loads((ROOT / "docs/openapi.json").read_text())["paths"].items()
    for method in operations
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_is_answered_by_an_error_of_ours(described: Any, method: str, path: str) -> None:
    schema, names, headers = described

    @given(case=schema[path][method].as_strategy())
    @settings(
        max_examples=6,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def call(case: Any) -> None:
        for name, value in (case.path_parameters or {}).items():
            # About every second request is about something that is there.
            if len(str(value)) % 2:
                case.path_parameters[name] = names[name]
        # What waits, waits for nothing here.
        (case.headers or {}).pop("Prefer", None)

        answer = case.call(headers=headers)

        case.validate_response(answer, checks=CHECKS)

    call()
