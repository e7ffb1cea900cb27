"""Pages and files are sent compressed, and what is secret on them is never the same bytes."""

import gzip
import re

import pytest
from flask import Flask

from tests.support.console import Visit, signed_in
from warren.admin_web.template_globals import STATIC

GZIP = {"Accept-Encoding": "gzip"}


def tokens(html: str) -> set[str]:
    return set(re.findall(r'name="csrf_token" value="([^"]+)"', html))


def test_a_page_is_compressed_for_who_accepts_it(admin: Visit) -> None:
    plain = admin.client.get("/jobs")
    packed = admin.client.get("/jobs", headers=GZIP)

    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert b"<h1>Jobs</h1>" in gzip.decompress(packed.data)
    assert len(packed.data) < len(plain.data) / 2
    assert "Content-Encoding" not in plain.headers


def test_an_answer_to_a_form_may_hold_a_new_secret_and_is_not_compressed(admin: Visit) -> None:
    answer = admin.post("/tokens/add", {"token_name": ""}, headers=GZIP)

    assert "Content-Encoding" not in answer.headers


def test_what_must_not_be_compressed_for_a_browser_is_not(admin: Visit) -> None:
    refusing = {"Accept-Encoding": "gzip;q=0, identity"}

    assert "Content-Encoding" not in admin.client.get("/jobs", headers=refusing).headers


def test_style_sheets_are_compressed_and_kept(app: Flask) -> None:
    answer = app.test_client().get("/static/console.css?v=1", headers=GZIP)

    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.data) == (STATIC / "console.css").read_bytes()
    assert "immutable" in answer.headers["Cache-Control"]


def test_a_style_sheet_is_compressed_only_once(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    first = app.test_client().get("/static/jobs.css", headers=GZIP).data
    monkeypatch.setattr(gzip, "compress", None)

    assert app.test_client().get("/static/jobs.css", headers=GZIP).data == first


def test_a_token_looks_different_in_each_answer_and_counts_in_each(app: Flask) -> None:
    admin = signed_in(app, "admin")
    first, second = (tokens(admin.get("/account").text) for _ in range(2))

    assert len(first) == len(second) == 1
    assert first != second
    for token in first | second:
        admin.token = token
        assert admin.post("/account/theme", {"theme": "dark"}).status_code == 303


def test_a_token_that_is_none_is_refused(admin: Visit) -> None:
    for token in ("", "x", "AAAA", "é", admin.token[:-8]):
        admin.token = token
        assert admin.post("/account/theme", {"theme": "dark"}).status_code == 403, token
