"""Policies over Warren's queues, as RabbitMQ's management API lists them."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.support.ports import free_port
from warren.broker.rabbitmq.management import Unanswered, policies

QUEUES: list[dict[str, Any]] = [
    {"name": "warren.dead", "effective_policy_definition": {}, "policy": None},
    {"name": "warren.cmd.a.one.b1", "effective_policy_definition": [], "policy": ""},
    {
        "name": "warren.run.a.two",
        "policy": "ttl",
        "operator_policy": None,
        "effective_policy_definition": {"message-ttl": 1000, "queue-mode": "lazy"},
    },
    {
        "name": "warren.run.a.one",
        "policy": "ttl",
        "effective_policy_definition": {"message-ttl": 1000},
    },
    {
        "name": "warren.callback",
        "policy": "lazy",
        "operator_policy": "small",
        "effective_policy_definition": {"max-length": 10, "overflow": "reject-publish"},
    },
    {"name": "other", "policy": "ttl", "effective_policy_definition": {"message-ttl": 1}},
]


class Api(HTTPServer):
    """A management API for one account."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answer = json.dumps(QUEUES).encode()


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self.server.asked.append(self.path.partition("?")[0])
        allowed = "Basic " + base64.b64encode(b"ann:a:b@c").decode()
        self.send_response(200 if self.headers["Authorization"] == allowed else 401)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_policies_that_lose_delay_or_divert_messages_are_named(api: Api) -> None:
    found = policies("amqp://ann:a%3Ab%40c@127.0.0.1/a%2Fb", management_url=api.url)

    assert found == [
        "policy lazy and small (max-length, overflow) applies to warren.callback",
        "policy ttl (message-ttl) applies to warren.run.a.one and 1 more",
    ]
    assert api.asked == ["/api/queues/a%2Fb"]


def test_the_account_and_the_path_of_its_own_url_count(api: Api) -> None:
    own = api.url.replace("//", "//ann:a%3Ab%40c@") + "/rabbit/"

    assert policies("amqp://else:hidden@10.255.255.1", management_url=own)

    assert api.asked == ["/rabbit/api/queues/%2F"]


def test_an_account_without_the_tag_is_told_what_it_lacks(api: Api) -> None:
    with pytest.raises(Unanswered, match="wants an account with the tag management") as refused:
        policies("amqp://ann:hidden@127.0.0.1", management_url=api.url)

    assert "hidden" not in str(refused.value)
    assert api.asked == ["/api/queues/%2F"]


def test_another_server_at_the_port_is_not_taken_for_the_api(api: Api) -> None:
    api.answer = b"<html>"

    with pytest.raises(Unanswered, match="does not answer like a management API"):
        policies("amqp://ann:a%3Ab%40c@127.0.0.1", management_url=api.url)


def test_no_api_is_told() -> None:
    port = free_port()

    with pytest.raises(Unanswered, match=f"no management API answers at 127.0.0.1:{port}"):
        policies("amqp://127.0.0.1", management_url=f"http://127.0.0.1:{port}")
