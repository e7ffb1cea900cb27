"""Signatures of webhooks, checked by an example of the standard and by our own documentation."""

import base64
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.webhook_server import WebhookServer
from warren.broker.signing import ClusterKeys, webhook_secret
from warren.scheduler.alarms.events import NO_WEBHOOK, RunWebhook, TickNews, from_text, to_text
from warren.scheduler.alarms.message import MessageContext, message
from warren.scheduler.alarms.targets import webhook_problems
from warren.scheduler.alarms.webhook import SignedWebhook, Webhook, sign
from warren.sql.run_status import RunStatus

DOCS = Path(__file__).parents[3] / "docs"
NEWS = TickNews(
    app="reports",
    job="nightly",
    run_id=12,
    first_run_id=11,
    kind="RETRY",
    status="SUCCEEDED",
    is_success=True,
    scheduled_at=1_800_000_000_000,
    finished_at=1_800_000_001_500,
    message="Zürich — 東京",
    address="one",
    result='{"rows":3}',
)
SECRET, OLD_SECRET = "new-secret-of-the-tests-0123456789", "old-secret-of-the-tests-0123456789"


@pytest.fixture
def verify() -> Callable[..., None]:
    """The check that the documentation gives to receivers."""
    [code] = re.findall(r"```python\n(.*?)```", (DOCS / "webhooks.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    found: Callable[..., None] = names["verify"]
    return found


def post(hook: WebhookServer, keys: ClusterKeys, news: TickNews = NEWS) -> tuple[Any, bytes]:
    """Send an end; return the headers, by their names in lower case, and the body that arrived."""
    alarm: Any = SimpleNamespace(id=7, target=hook.url, channel="run-end")
    sender = SignedWebhook(Webhook(), keys.of_webhooks)
    sender.send(alarm, message(news, MessageContext("UTC", "https://console.example.com")))
    headers = {name.lower(): value for name, value in hook.requests[-1][2].items()}
    return headers, hook.bodies[-1]


def test_a_signature_is_the_one_of_the_standards_example() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signature = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_what_arrives_is_verified_by_the_key_of_its_app_alone(
    verify: Callable[..., None],
) -> None:
    with WebhookServer() as hook:
        headers, body = post(hook, ClusterKeys(SECRET))

    verify(webhook_secret(SECRET, "reports"), headers, body)
    for secret in (webhook_secret(SECRET, "mails"), webhook_secret(OLD_SECRET, "reports")):
        with pytest.raises(ValueError, match="no signature fits"):
            verify(secret, headers, body)
    for changed in (body + b" ", body.replace(b"SUCCEEDED", b"FAILED")):
        with pytest.raises(ValueError, match="no signature fits"):
            verify(webhook_secret(SECRET, "reports"), headers, changed)
    with pytest.raises(ValueError, match="no signature fits"):
        verify(webhook_secret(SECRET, "reports"), headers | {"webhook-id": "run-12"}, body)
    late = headers | {"webhook-timestamp": str(int(time.time()) - 3_600)}
    with pytest.raises(ValueError, match="too old"):
        verify(webhook_secret(SECRET, "reports"), late, body)


def test_while_the_secret_changes_either_key_fits(verify: Callable[..., None]) -> None:
    with WebhookServer() as hook:
        headers, body = post(hook, ClusterKeys(SECRET, OLD_SECRET))

    assert len(headers["webhook-signature"].split()) == 2
    verify(webhook_secret(SECRET, "reports"), headers, body)
    verify(webhook_secret(OLD_SECRET, "reports"), headers, body)


def test_the_body_says_how_a_run_ended() -> None:
    with WebhookServer() as hook:
        headers, _ = post(hook, ClusterKeys(SECRET))

    assert headers["webhook-id"] == "run-11"
    assert hook.posts == [
        {
            "type": "run.succeeded",
            "timestamp": "2027-01-15T08:00:01.500+00:00",
            "data": {
                "app": "reports",
                "job": "nightly",
                "run_id": 12,
                "first_run_id": 11,
                "kind": "RETRY",
                "status": "SUCCEEDED",
                "message": "Zürich — 東京",
                "address": "one",
                "result": {"rows": 3},
                "scheduled_at": "2027-01-15T08:00:00.000+00:00",
                "finished_at": "2027-01-15T08:00:01.500+00:00",
                "url": "https://console.example.com/runs/12",
            },
        }
    ]


def test_what_is_stored_says_that_a_tick_has_ended() -> None:
    text = to_text(NEWS)

    assert '"about":"ended"' in text
    assert from_text(text) == NEWS


def test_a_receiver_that_fails_is_an_error() -> None:
    with WebhookServer() as hook:
        hook.status = 503

        with pytest.raises(OSError, match="it answered 503"):
            post(hook, ClusterKeys(SECRET))


@pytest.mark.parametrize(
    ("when", "heard"),
    [
        ("", ["SUCCEEDED", "SKIPPED", "LOST"]),
        ("always", ["SUCCEEDED", "SKIPPED", "LOST"]),
        ("success", ["SUCCEEDED"]),
        ("failure", ["LOST"]),
    ],
)
def test_a_webhook_hears_of_the_ends_that_it_was_given_for(when: str, heard: list[str]) -> None:
    webhook = RunWebhook(url="https://example.com", when=when)

    ends = (RunStatus.SUCCEEDED, RunStatus.SKIPPED, RunStatus.LOST)
    assert [status for status in ends if webhook.hears(status)] == heard
    assert not NO_WEBHOOK.hears(RunStatus.SUCCEEDED)


@pytest.mark.parametrize(
    ("webhook", "field", "words"),
    [
        (RunWebhook(url="ftp://example.com"), "webhook/url", "an http"),
        (RunWebhook(url="http://169.254.169.254/"), "webhook/url", "link-local"),
        (RunWebhook(url="https://a:b@example.com/"), "webhook/url", "no user name"),
        (RunWebhook(when="success"), "webhook/when", "a url, because when is set"),
        (RunWebhook(url="https://example.com", when="sucess"), "webhook/when", "'success'"),
    ],
)
def test_what_cannot_be_a_webhook_is_named(webhook: RunWebhook, field: str, words: str) -> None:
    [problem] = webhook_problems(webhook)

    assert problem.field == field
    assert words in str(problem)
