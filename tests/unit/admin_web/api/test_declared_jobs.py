"""Jobs that are declared in code, applied by the API: where they are declared, and in one place."""

from typing import Any

import pytest

from tests.support.api import Program
from tests.support.stored_rows import Rows

MODULE = "acme_jobs.handlers"
FROM = f"/apply?module={MODULE}"


def job(name: str, app: str = "reports") -> dict[str, str]:
    return {"name": name, "app": app, "handler": "h"}


def changes(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 200, answer.text
    return [(one["action"], one["name"]) for one in answer.get_json()["changes"]]


@pytest.fixture
def declared(admin: Program) -> Program:
    admin.post(FROM, {"jobs": [job("load"), job("mail")]})
    return admin


def place(program: Program, name: str) -> object:
    return program.get(f"/jobs/reports/{name}").get_json()["state"]["declared_in"]


def test_a_job_says_where_it_is_declared(declared: Program, rows: Rows) -> None:
    declared.post("/apply", {"jobs": [job("filed")]})
    rows.job("made")

    assert [place(declared, name) for name in ("load", "filed", "made")] == [
        f"code:{MODULE}",
        "file",
        None,
    ]


def test_a_file_neither_takes_nor_prunes_what_code_declares(declared: Program) -> None:
    refused = declared.post("/apply", {"jobs": [job("filed"), job("mail")]})
    pruned = declared.post("/apply?prune=true", {"jobs": [job("filed")]})

    assert refused.status_code == 422
    assert refused.get_json()["errors"] == [
        {
            "pointer": "/jobs/1/name",
            "code": "declared_in_code",
            "detail": f"this job is already declared in code, in {MODULE}; declare it in one "
            "place, or move it here with take-over",
        }
    ]
    assert changes(pruned) == [("create", "reports/filed")]


def test_pruning_code_deletes_what_it_declared_before_and_no_file_does(
    declared: Program, rows: Rows
) -> None:
    declared.post("/apply", {"jobs": [job("filed")]})
    rows.job("made")

    elsewhere = declared.post(f"{FROM}&prune=true&app=other", {"jobs": []})
    pruned = declared.post(f"{FROM}&prune=true", {"jobs": [job("load")]})

    assert changes(elsewhere) == []
    assert changes(pruned) == [("delete", "reports/mail")]


def test_taking_over_moves_a_job_and_is_a_change(declared: Program) -> None:
    moved = declared.post("/apply?take_over=true", {"jobs": [job("load")]})
    again = declared.post("/apply", {"jobs": [job("load")]})

    assert changes(moved) == [("update", "reports/load")]
    assert moved.get_json()["changes"][0]["details"] == ["declared in: a job file"]
    assert changes(again) == []
    assert place(declared, "load") == "file"


def test_a_dry_run_moves_nothing(declared: Program) -> None:
    shown = declared.post("/apply?take_over=true&dry_run=true", {"jobs": [job("load")]})

    assert changes(shown) == [("update", "reports/load")]
    assert place(declared, "load") == f"code:{MODULE}"


def test_a_module_has_a_name_that_fits(admin: Program) -> None:
    answer = admin.post(f"/apply?module={'x' * 251}", {"jobs": [job("load")]})

    assert answer.status_code == 422
    assert "expected the name of a module of up to 250 characters" in answer.text
