"""A user downloads one file at a time, be it a list or a log; pages are not limited."""

import pytest
from flask import Flask

from tests.support.console import Visit, signed_in
from warren.admin_web.downloads import is_for_file


def test_one_file_at_a_time_for_each_user(app: Flask, admin: Visit) -> None:
    first = admin.client.get("/apps?format=csv", buffered=False)
    again = signed_in(app, "admin")
    refused = [again.get(path) for path in ("/jobs?format=json", "/runs/1/log/download")]
    other, page = signed_in(app, "operator").get("/apps?format=csv"), again.get("/apps")
    first.close()
    later = again.get("/jobs?format=json")

    assert [(one.status_code, one.headers["Retry-After"]) for one in refused] == [(429, "5")] * 2
    assert "You are downloading another file." in refused[0].text
    assert [one.status_code for one in (first, other, page, later)] == [200] * 4


def test_a_refused_download_says_why_in_the_language_of_the_visitor(
    app: Flask, admin: Visit
) -> None:
    first = admin.client.get("/apps?format=csv", buffered=False)
    again = signed_in(app, "admin")
    refused = again.get("/jobs?format=json", headers={"Accept-Language": "zh-CN"})
    first.close()

    assert refused.status_code == 429
    assert "您正在下载另一个文件" in refused.text


@pytest.mark.parametrize(
    "path", ["/runs?since=x&format=csv", "/runs/7/log/download", "/users?format=csv"]
)
def test_an_answer_without_a_file_keeps_no_place(app: Flask, path: str) -> None:
    operator = signed_in(app, "operator")

    assert operator.client.get(path).status_code >= 400

    assert operator.get("/apps?format=csv").status_code == 200


def test_a_head_request_keeps_no_place(admin: Visit) -> None:
    admin.client.head("/apps?format=csv").close()

    assert admin.get("/apps?format=csv").status_code == 200


@pytest.mark.parametrize(
    ("path", "query", "is_file"),
    [
        ("/jobs", "format=csv", True),
        ("/jobs", "app=x&format=json", True),
        ("/jobs", "form%61t=c%73v", True),
        ("/runs/7/log/download", "", True),
        ("/jobs", "format=html", False),
        ("/jobs", "informat=csv", False),
        ("/jobs", "&".join(["format=csv"] * 101), False),
        ("/runs/7/log", "", False),
        ("/jobs", "", False),
    ],
)
def test_a_request_for_a_file_is_known_by_its_url(path: str, query: str, is_file: bool) -> None:
    assert is_for_file(path, query) is is_file
