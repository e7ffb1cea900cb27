"""The pages that ask for a param show the fields of its handler's params, and problems by field."""

import json
import re
from typing import Any

import pytest

from tests.support.console import Clock, Visit, once_of
from tests.support.sql_rows import all_runs
from tests.support.stored_rows import Rows
from warren.sql.engine import Database
from warren.sql.jobs import job_names

SCHEMA = {
    "$ref": "#/$defs/Load",
    "$defs": {
        "Load": {
            "type": "object",
            "description": "Which <orders> to load.",
            "properties": {
                "day": {"type": "string", "format": "date"},
                "parts": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 1,
                    "description": "How many.",
                },
                "source": {"enum": ["feed", "archive"], "default": "feed"},
                "dry": {"type": "boolean", "default": False},
                "shops": {"type": "array", "items": {"type": "integer"}, "default": []},
                "lines": {"type": "array", "items": {"required": ["count"]}, "default": []},
                "either": {"anyOf": [{"type": "object"}, {"type": "string"}], "default": ""},
            },
            "required": ["day"],
        }
    },
}


@pytest.fixture
def job_id(rows: Rows, clock: Clock) -> int:
    rows.executor("one", clock.now, json.dumps({"handlers": {"load": SCHEMA}}))
    return rows.job("nightly", handler="load", param='{"day": "2026-12-01"}')


def errors(page: str) -> list[str]:
    """Return the problems that a page shows beside its fields."""
    found = re.findall(r'<p class="field-error"[^>]*>(.*?)</p>', page, re.DOTALL)
    return [re.sub(r"<svg.*?</svg>|<[^>]+>", "", text, flags=re.DOTALL).strip() for text in found]


def quoted(text: str) -> str:
    return f"&#34;{text}&#34;"


def run(visit: Visit, job_id: int, **form: Any) -> Any:
    page = visit.get(f"/jobs/{job_id}/trigger").text
    return visit.post(f"/jobs/{job_id}/trigger/run", {"once": once_of(page)} | form)


def saved_form(page: str) -> dict[str, str]:
    """Return what the form of the job says besides its param."""
    seen = re.search(r'name="seen"[^>]*value="([^"]+)"', page)
    assert seen is not None
    basic = {"seen": seen[1], "name": "nightly", "handler": "load", "schedule_kind": "NONE"}
    numbers = {"late_limit": "60", "concurrency": "1", "timeout": "0", "retries": "0"}
    basic |= numbers | {"retry_delay": "0", "retry_most": "0", "retry_jitter": "0"}
    basic |= {"block": "SERIAL_EXECUTION", "misfire": "DO_NOTHING", "delivery": "AT_MOST_ONCE"}
    return basic | {"retry_backoff": "fixed"}


def fields(**texts: str) -> dict[str, str]:
    return {"param_as": "fields"} | {f"p.{name}": text for name, text in texts.items()}


def test_the_trigger_form_has_a_field_for_each_param(admin: Visit, job_id: int) -> None:
    page = admin.get(f"/jobs/{job_id}/trigger").text

    assert "Which &lt;orders&gt; to load." in page
    for control in (
        '<input type="date" name="p.day" id="p.day" value="2026-12-01"',
        'name="p.parts" id="p.parts" value="" placeholder="1"',
        '<select name="p.source" id="p.source"><option value="">default: feed</option>',
        '<input type="checkbox" name="p.dry" id="p.dry" value="1">',
    ):
        assert control in page
    assert 'name="param"' not in page
    assert "Edit as text" in page


def test_what_is_typed_into_the_fields_is_the_runs_param(
    admin: Visit, job_id: int, database: Database
) -> None:
    answer = run(admin, job_id, **fields(day="2026-12-02", parts="3", dry="1", source=""))

    assert answer.status_code == 303
    [planned] = all_runs(database)
    assert json.loads(planned.param or "") == {"day": "2026-12-02", "parts": 3, "dry": True}


def test_what_does_not_fit_is_refused_beside_its_field_and_nothing_runs(
    admin: Visit, job_id: int, database: Database
) -> None:
    answer = run(admin, job_id, **fields(day="", parts="none", source='"mail"'))

    assert answer.status_code == 422
    choices = f"{quoted('feed')}, {quoted('archive')}"
    assert errors(answer.text) == [
        "Required.",
        f"expected parts to be integer, got: {quoted('none')}",
        f"expected source to be one of {choices}, got: {quoted('mail')}",
    ]
    assert 'value="none"' in answer.text
    assert all_runs(database) == []


#: What no field can mean: the field, what was typed, and the answer beside it.
WRONG = [
    ("day", "2026-02-30", f"expected day to be date, got: {quoted('2026-02-30')}"),
    ("day", "", "Required."),
    ("parts", "1.5", "expected parts to be integer, got: 1.5"),
    ("source", "7", f"expected source to be one of {quoted('feed')}, {quoted('archive')}, got: 7"),
    ("shops", "1\nx", f"expected shops/1 to be integer, got: {quoted('x')}"),
    ("lines", "[{1", f"expected lines to be JSON, got: {quoted('[{1')}"),
    ("lines", "[{}]", "expected param to have &#39;lines/0/count&#39;"),
    ("either", "{1", f"expected either to be JSON, got: {quoted('{1')}"),
    ("either", "[NaN]", f"expected either to be JSON, got: {quoted('[NaN]')}"),
    ("either", "x" * 70_000, "expected param to be up to 65536 bytes, got: 70035 bytes"),
]


def test_neither_form_takes_what_a_field_cannot_mean_and_both_keep_what_was_typed(
    admin: Visit, job_id: int, database: Database
) -> None:
    saved = saved_form(admin.get(f"/jobs/{job_id}/edit").text)
    for path, form in (
        (f"/jobs/{job_id}/trigger/preview", {}),
        (
            f"/jobs/{job_id}/trigger/run",
            {"once": once_of(admin.get(f"/jobs/{job_id}/trigger").text)},
        ),
        # Without a schedule, a job may leave its param to its triggers.
        (
            f"/jobs/{job_id}/save",
            saved | {"schedule_kind": "CRON", "cron": "0 0 2 * * ?", "timezone": "UTC"},
        ),
    ):
        for name, text, words in WRONG:
            answer = admin.post(path, form | fields(**{"day": "2026-12-02", name: text}))

            assert (answer.status_code, errors(answer.text)) == (422, [words])
            kept = rf'id="p.{name}"[^>]*(value="|>\n|>.*<option value="){re.escape(text)}["<]'
            assert re.search(kept, answer.text), (path, name)

    assert all_runs(database) == []
    assert saved_form(admin.get(f"/jobs/{job_id}/edit").text) == saved


def test_a_field_that_is_gone_since_the_page_was_opened_is_told(
    admin: Visit, job_id: int, database: Database
) -> None:
    answer = run(admin, job_id, **fields(day="2026-12-02", gone="7", empty=""))

    assert (answer.status_code, errors(answer.text)) == (422, ["param has no &#39;gone&#39;"])
    assert all_runs(database) == []


def test_a_text_that_does_not_fit_is_refused_beside_the_text(
    admin: Visit, job_id: int, database: Database
) -> None:
    answer = run(admin, job_id, param_as="text", param='{"parts": 0}')

    assert answer.status_code == 422
    assert errors(answer.text) == [
        "expected param to have &#39;day&#39;",
        "expected parts to satisfy minimum 1, got: 0",
    ]
    assert all_runs(database) == []


def test_the_text_is_a_click_away_and_so_are_the_fields(
    admin: Visit, job_id: int, database: Database
) -> None:
    admin.get(f"/jobs/{job_id}/trigger")
    switch = f"/jobs/{job_id}/trigger/preview"

    as_text = admin.post(switch, fields(day="2026-12-02", parts="3") | {"param_show": "text"})
    param = '{"day": "2026-12-02", "parts": 3}'
    sent = {"param_as": "text", "param": param, "param_show": "fields"}
    as_fields = admin.post(switch, sent)
    odd = admin.post(switch, sent | {"param": "[1]"})

    assert "{&#34;day&#34;: &#34;2026-12-02&#34;, &#34;parts&#34;: 3}" in as_text.text
    assert "data-preview" not in as_text.text
    assert 'name="p.parts" id="p.parts" value="3"' in as_fields.text
    assert errors(odd.text) == ["This text cannot be edited as fields."]
    assert all_runs(database) == []


def test_a_preview_shows_the_param_of_the_fields(admin: Visit, job_id: int) -> None:
    admin.get(f"/jobs/{job_id}/trigger")

    page = admin.post(f"/jobs/{job_id}/trigger/preview", fields(day="2026-12-02")).text

    assert '<dd class="wrap mono">{&#34;day&#34;: &#34;2026-12-02&#34;}</dd>' in page
    assert 'name="p.day" id="p.day" value="2026-12-02"' in page


def test_a_job_whose_params_nobody_tells_has_the_text_alone(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("plain", handler="other", param="x")

    page = admin.get(f"/jobs/{job_id}/trigger").text

    assert 'name="param"' in page
    assert "Edit as fields" not in page


def test_a_param_that_nobody_can_check_is_said_to_be_unchecked(admin: Visit, rows: Rows) -> None:
    job_id = rows.job("pack", app="warehouse", handler="pack", param="x")
    why = "the param was not checked: no executor of app warehouse is online"

    admin.get(f"/jobs/{job_id}/trigger")
    previews = [
        admin.post(f"/jobs/{job_id}/trigger/preview", {"param": param}).text for param in "xy"
    ]
    runs = [admin.get(run(admin, job_id, param=param).location).text for param in "xy"]

    assert [why in page for page in previews] == [False, True]
    assert [f"is queued; {why}." in page for page in runs] == [False, True]


def test_the_form_of_a_job_has_the_fields_and_saves_them(
    admin: Visit, job_id: int, rows: Rows, database: Database
) -> None:
    page = admin.get(f"/jobs/{job_id}/edit").text
    basic = saved_form(page)

    refused = admin.post(f"/jobs/{job_id}/save", basic | fields(day="soon", parts="2"))
    as_text = admin.post(
        f"/jobs/{job_id}/save", basic | fields(day="2026-12-03") | {"param_show": "text"}
    )
    saved = admin.post(f"/jobs/{job_id}/save", basic | fields(day="2026-12-03", parts="2"))

    assert 'name="p.day" id="p.day" value="2026-12-01"' in page
    assert refused.status_code == 422
    assert errors(refused.text) == ["expected day to be date, got: &#34;soon&#34;"]
    assert as_text.status_code == 200
    assert 'name="param"' in as_text.text
    assert saved.status_code == 303, errors(saved.text)
    stored = database.read(lambda session: job_names.find(session, "nightly").param)
    assert json.loads(stored or "") == {"day": "2026-12-03", "parts": 2}


def test_a_new_job_gets_the_fields_of_the_handler_that_is_typed(admin: Visit, job_id: int) -> None:
    assert job_id
    admin.get("/jobs/new")
    asked = {"app": "reports", "param_as": "text", "param": "", "param_show": "fields"}

    known = admin.post("/jobs/create", asked | {"handler": "load"})
    unknown = admin.post("/jobs/create", asked | {"handler": "lod"})

    assert known.status_code == 200
    assert 'name="p.day"' in known.text
    assert errors(unknown.text) == ["No online executor reports which params this handler has."]


def test_everything_that_is_wrong_with_a_job_is_said_at_once(
    admin: Visit, job_id: int, database: Database
) -> None:
    saved = saved_form(admin.get(f"/jobs/{job_id}/edit").text)
    wrong = saved | {"name": "a/b", "timeout": "soon", "children": "nobody", "limits": "nowhere"}
    typed = fields(day="soon", parts="x", lines="[{1")

    answer = admin.post(f"/jobs/{job_id}/save", wrong | {"retry_jitter": "7"} | typed)

    assert answer.status_code == 422
    assert sorted(errors(answer.text)) == sorted(
        [
            "expected name to contain no &#39;/&#39;, got: &#39;a/b&#39;",
            f"expected day to be date, got: {quoted('soon')}",
            f"expected parts to be integer, got: {quoted('x')}",
            f"expected lines to be JSON, got: {quoted('[{1')}",
            "Enter a whole number.",
            "unknown limit &#39;nowhere&#39;",
            "unknown child &#39;nobody&#39;",
            "expected retry_jitter to be a number from 0 to 1 with up to two decimals, got: 7.0",
        ]
    )


NESTED = {
    "type": "object",
    "properties": {
        "share": {"type": "string", "format": "decimal"},
        "range": {
            "type": "object",
            "description": "Which days.",
            "properties": {"first": {"type": "string", "format": "date"}},
        },
        "shops": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["name"],
            },
        },
    },
}


@pytest.fixture
def nested_id(rows: Rows, clock: Clock) -> int:
    rows.executor("one", clock.now, json.dumps({"handlers": {"load": NESTED}}))
    param = {"range": {"first": "2026-12-01"}, "shops": [{"name": "berlin", "count": 2}]}
    return rows.job("nightly", handler="load", param=json.dumps(param))


def test_structs_and_lists_of_them_are_fields_and_rows(admin: Visit, nested_id: int) -> None:
    page = admin.get(f"/jobs/{nested_id}/trigger").text

    for control in (
        'id="p.share" value="" placeholder="" autocomplete="off" inputmode="decimal"',
        '<input type="date" name="p.range/first" id="p.range/first" value="2026-12-01"',
        '<input type="hidden" name="p.shops/0" value="">',
        'name="p.shops/0/name" id="p.shops/0/name" value="berlin"',
        'name="p.shops/0/count" id="p.shops/0/count" value="2"',
        f'name="param_add" value="p.shops" formaction="/jobs/{nested_id}/trigger/preview"',
    ):
        assert control in page
    assert "Which days." in page


def test_a_row_is_added_without_a_script_and_its_faults_stand_beside_it(
    admin: Visit, nested_id: int, database: Database
) -> None:
    admin.get(f"/jobs/{nested_id}/trigger")
    first = {"p.shops/0": "", "p.shops/0/name": "berlin"}
    sent = fields(**{"share": "0,5", "range/first": ""}) | first

    added = admin.post(f"/jobs/{nested_id}/trigger/preview", sent | {"param_add": "p.shops"}).text
    refused = run(admin, nested_id, **sent | {"p.shops/1": "", "p.shops/1/count": "x"})
    sent |= {"p.share": "0.5", "p.shops/1": "", "p.shops/2": "", "p.shops/2/name": "hamburg"}
    made = run(admin, nested_id, **sent)

    assert 'id="p.shops/0/name" value="berlin"' in added
    assert 'id="p.shops/1/name" value=""' in added
    assert errors(added) == []
    assert refused.status_code == 422
    assert errors(refused.text) == [
        f"expected share to be decimal, got: {quoted('0,5')}",
        "Required.",
        f"expected shops/1/count to be integer, got: {quoted('x')}",
    ]
    assert made.status_code == 303
    [planned] = all_runs(database)
    assert json.loads(planned.param or "") == {
        "share": "0.5",
        "shops": [{"name": "berlin"}, {"name": "hamburg"}],
    }
