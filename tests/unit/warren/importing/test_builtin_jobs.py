"""XXL-JOB's own handlers for HTTP and commands become Warren's, with their params."""

import json

import msgspec
import pytest

from warren.executor.builtin.command import Command
from warren.executor.builtin.http import Request
from warren.importing.xxl_job.job_conversion import builtin_job


@pytest.mark.parametrize(
    ("param", "request_"),
    [
        (
            '{"url": "https://x.example/a", "method": "get", "timeout": 1500}',
            {"url": "https://x.example/a", "method": "GET", "timeout": 1.5},
        ),
        (
            '{"url": "http://x/", "data": {"a": 1}, "headers": {"A": 1}, "cookies": {"c": "d"}}',
            {
                "url": "http://x/",
                "method": "POST",
                "body": '{"a":1}',
                "headers": {"A": "1", "Cookie": "c=d", "Content-Type": "application/json"},
                "timeout": 3.0,
            },
        ),
        (
            '{"url": "http://x/", "form": {"a": "b c"}, "auth": "hunter2"}',
            {
                "url": "http://x/",
                "method": "POST",
                "body": "a=b+c",
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
                "timeout": 3.0,
            },
        ),
        (
            "url: http://x:8080/y?z=1\nmethod: get\n",
            {"url": "http://x:8080/y?z=1", "method": "GET", "timeout": 3.0},
        ),
        ("http://x/", {"url": "http://x/", "method": "GET", "timeout": 3.0}),
    ],
)
def test_each_form_of_its_param_becomes_a_request(param: str, request_: dict[str, object]) -> None:
    found = builtin_job("httpJobHandler", param)

    assert found is not None
    assert found.handler == "warren.http"
    assert json.loads(found.param) == request_
    assert "hunter2" not in found.param
    assert any("auth" in remark for remark in found.remarks) == ("auth" in param)
    msgspec.json.decode(found.param, type=Request)


def test_a_command_is_split_at_spaces_as_there() -> None:
    found = builtin_job("commandJobHandler", "ls  -l '/a b'")

    assert found is not None
    assert (found.handler, json.loads(found.param)) == (
        "warren.command",
        {"args": ["ls", "-l", "'/a", "b'"]},
    )
    msgspec.json.decode(found.param, type=Command)


def test_other_handlers_stay_as_they_are() -> None:
    assert builtin_job("demoJobHandler", "x") is None


@pytest.mark.parametrize(
    ("handler", "param", "words"),
    [
        ("commandJobHandler", " ", "it is no command"),
        ("httpJobHandler", "", "it has no url with http"),
        ("httpJobHandler", "{", "it is no JSON"),
        ("httpJobHandler", '{"url": "ftp://x"}', "it has no url with http"),
        ("httpJobHandler", '{"url": "http://x", "method": "TRACE"}', "no method of HTTP"),
        ("httpJobHandler", '{"url": "http://x", "proxy": 1}', "it has 'proxy'"),
        ("httpJobHandler", '{"url": "http://x", "headers": [1]}', "its headers are no object"),
        ("httpJobHandler", "what is this", "it has a line without a colon"),
    ],
)
def test_a_param_that_means_nothing_there_is_told(handler: str, param: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        builtin_job(handler, param)
