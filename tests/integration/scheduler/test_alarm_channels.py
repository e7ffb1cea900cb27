"""E-mails and webhooks, sent to real servers: good ones, hostile ones, and such that hang."""

import socket
import ssl
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.broker.certificates import Authority
from tests.support.mailbox import Mailbox
from tests.support.ports import free_port
from tests.support.webhook_server import Silence, WebhookServer
from warren.scheduler.alarms.addresses import MailServer, WebhookAllowList
from warren.scheduler.alarms.mail import SILENCE_SECONDS, Mailer
from warren.scheduler.alarms.message import Message
from warren.scheduler.alarms.sender import RefusedForGood
from warren.scheduler.alarms.webhook import Webhook

SAID = Message(
    "[warren] shop/orders failed: FAILED", "message: Zürich — 東京\n.\nend", {"app": "shop"}
)


def alarm(target: str, channel: str = "json") -> Any:
    return SimpleNamespace(id=7, target=target, channel=channel)


def mailer(url: str, **options: float) -> Mailer:
    return Mailer(MailServer.parse(url), domain="cluster.warren", **options)


def smtp_url(server: Silence, scheme: str = "smtp") -> str:
    return f"{scheme}://127.0.0.1:{server.port}?from=a@b"


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
class TestMail:
    def test_it_arrives_as_it_was_written(self) -> None:
        with Mailbox() as box:
            mailer(box.url).send(alarm("ops@example.com"), SAID)

        [mail] = box.mails
        assert (mail["From"], mail["To"]) == ("warren@example.com", "ops@example.com")
        assert mail["Subject"] == SAID.subject
        assert mail["Message-ID"] == "<alarm-7@cluster.warren>"
        text = mail.get_payload(decode=True)
        assert isinstance(text, bytes)
        assert text.decode().replace("\r\n", "\n") == f"{SAID.text}\n"

    def test_user_and_password_are_given(self) -> None:
        with Mailbox(login=("me", "pass-word")) as box:
            mailer(box.url).check()
            mailer(box.url).send(alarm("ops@example.com"), SAID)

            assert len(box.mails) == 1

    def test_a_wrong_password_is_an_error_that_does_not_hold_it(self) -> None:
        with Mailbox(login=("me", "right")) as box, pytest.raises(OSError, match="535") as refused:
            mailer(box.url.replace("right", "hush")).check()

        assert "hush" not in str(refused.value)

    def test_a_refused_mail_is_an_error_with_the_servers_words(self) -> None:
        with Mailbox() as box:
            box.refusal = "552 mailbox full"

            with pytest.raises(OSError, match="552 mailbox full"):
                mailer(box.url).send(alarm("ops@example.com"), SAID)

    def test_only_what_a_server_answers_about_this_mail_is_for_good_and_only_with_5xx(self) -> None:
        wrong = []
        for answer, at_data, is_final in (
            ("550 no such user", False, True),
            ("450 mailbox busy", False, False),
            ("552 too large", True, True),
            ("451 try later", True, False),
        ):
            with Mailbox() as box:
                box.refusal = answer if at_data else ""
                box.refused = {} if at_data else {"ops@example.com": answer}
                with pytest.raises(OSError, match=answer) as refused:
                    mailer(box.url).send(alarm("ops@example.com"), SAID)
            if isinstance(refused.value, RefusedForGood) is not is_final:
                wrong.append(answer)
        with Mailbox(login=("me", "right")) as box, pytest.raises(OSError, match="535") as refused:
            mailer(box.url.replace("right", "hush")).send(alarm("ops@example.com"), SAID)

        assert wrong == []
        assert not isinstance(refused.value, RefusedForGood)  # somebody may mend the password

    def test_a_server_that_is_not_there_is_an_error(self) -> None:
        url = f"smtp://127.0.0.1:{free_port()}?from=a@b"

        with pytest.raises(OSError, match="refused"):
            mailer(url).send(alarm("ops@example.com"), SAID)

    def test_a_server_that_should_speak_tls_and_does_not_gets_nothing(self) -> None:
        with Mailbox() as box:
            for scheme in ("smtps", "smtp+starttls"):
                with pytest.raises(OSError):  # noqa: PT011 - each library has its own words
                    mailer(box.url.replace("smtp", scheme, 1)).send(alarm("a@b"), SAID)

        assert box.mails == []

    @pytest.mark.parametrize("scheme", ["smtp", "smtps", "smtp+starttls"])
    def test_a_silent_server_is_left(self, scheme: str) -> None:
        began = time.monotonic()

        with Silence() as server, pytest.raises(OSError):  # noqa: PT011 - each has its own words
            mailer(smtp_url(server, scheme), silence_seconds=0.2).send(alarm("a@b"), SAID)

        assert time.monotonic() - began < SILENCE_SECONDS

    @pytest.mark.parametrize("drip", [b"2", b"220-more\r\n"])
    def test_a_server_that_never_comes_to_an_end_is_cut_off(self, drip: bytes) -> None:
        began = time.monotonic()

        with Silence(drip=drip) as server, pytest.raises(TimeoutError, match=r"longer than 0\.5 s"):
            mailer(smtp_url(server), send_seconds=0.5).send(alarm("a@b"), SAID)

        assert time.monotonic() - began < SILENCE_SECONDS


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
        """One that this process trusts."""
        authority = Authority(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        return authority

    @pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
    def test_mail_travels_by_tls(self, authority: Authority, scheme: str) -> None:
        with Mailbox(tls=authority.server_context("127.0.0.1"), scheme=scheme) as box:
            mailer(box.url).send(alarm("ops@example.com"), SAID)

        assert len(box.mails) == 1

    @pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
    def test_mail_does_not_go_to_somebody_else(self, authority: Authority, scheme: str) -> None:
        tls = authority.server_context("127.0.0.2")

        with Mailbox(tls=tls, scheme=scheme) as box, pytest.raises(ssl.SSLCertVerificationError):
            mailer(box.url).send(alarm("ops@example.com"), SAID)

        assert box.mails == []

    def test_webhook_is_called_by_tls(self, authority: Authority) -> None:
        with WebhookServer(tls=authority.server_context("127.0.0.1")) as hook:
            Webhook().send(alarm(hook.url), SAID)

        assert len(hook.posts) == 1

    @pytest.mark.parametrize(("host", "days"), [("127.0.0.2", 1), ("127.0.0.1", -1)])
    def test_webhook_with_a_wrong_certificate_gets_nothing(
        self, authority: Authority, host: str, days: int
    ) -> None:
        tls = authority.server_context(host, days=days)

        with WebhookServer(tls=tls) as hook, pytest.raises(ssl.SSLCertVerificationError):
            Webhook().send(alarm(hook.url), SAID)

        assert hook.requests == []


class TestWebhook:
    def test_one_post_arrives(self) -> None:
        with WebhookServer() as hook:
            Webhook().send(alarm(hook.url), SAID)

        [(method, path, headers)] = hook.requests
        assert (method, path) == ("POST", "/hook?token=hush")
        assert headers["Host"] == hook.url.split("/")[2]
        assert headers["Content-Type"] == "application/json; charset=utf-8"
        assert hook.posts == [{"id": 7, "subject": SAID.subject, "text": SAID.text, "app": "shop"}]

    def test_body_is_that_of_the_alarms_channel(self) -> None:
        with WebhookServer() as hook:
            Webhook().send(alarm(hook.url, "slack"), SAID)

        assert hook.posts == [{"text": f"{SAID.subject}\n{SAID.text}"}]

    @pytest.mark.parametrize("status", [400, 404, 500, 503])
    def test_another_status_is_an_error(self, status: int) -> None:
        with WebhookServer() as hook:
            hook.status = status

            with pytest.raises(OSError, match=f"^it answered {status}$"):
                Webhook().send(alarm(hook.url), SAID)

    def test_4xx_is_for_good_but_what_says_to_try_again(self) -> None:
        final = set()
        with WebhookServer() as hook:
            for status in (302, 400, 401, 403, 404, 408, 410, 413, 425, 429, 500, 502, 503):
                hook.status = status
                with pytest.raises(OSError, match=str(status)) as refused:
                    Webhook().send(alarm(hook.url), SAID)
                final |= {status} if isinstance(refused.value, RefusedForGood) else set()

        assert final == {400, 401, 403, 404, 410, 413}

    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_redirects_are_not_followed(self, status: int) -> None:
        with WebhookServer() as hook, WebhookServer() as other:
            hook.status, hook.headers = status, {"Location": other.url}

            with pytest.raises(OSError, match="redirects are not followed"):
                Webhook().send(alarm(hook.url), SAID)

            assert other.requests == []

    def test_a_service_that_refuses_with_status_200_is_an_error(self) -> None:
        with WebhookServer() as hook:
            hook.answer = b'{"errcode":310000,"errmsg":"keywords not in content"}'

            with pytest.raises(RefusedForGood, match=r"^it answered code 310000$"):
                Webhook().send(alarm(hook.url, "dingtalk"), SAID)

            hook.answer = b'{"errcode":410100,"errmsg":"too fast"}'
            with pytest.raises(OSError, match=r"^it answered code 410100$") as limited:
                Webhook().send(alarm(hook.url, "dingtalk"), SAID)
            assert not isinstance(limited.value, RefusedForGood)

    def test_a_name_that_leads_to_a_link_local_address_is_refused_before_it_is_called(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", resolver("127.0.0.1", "169.254.169.254"))

        with WebhookServer() as hook:
            port = hook.url.split(":")[2].partition("/")[0]
            with pytest.raises(OSError, match=r"\(169\.254\.169\.254\) is never called"):
                Webhook().send(alarm(f"http://evil.example.com:{port}/"), SAID)

            assert hook.requests == []

    def test_the_address_that_was_looked_at_is_the_one_that_is_called(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = iter([("127.0.0.1",), ("169.254.169.254",)])

        def rebinding(*arguments: Any, **options: Any) -> Any:
            return resolver(*next(answers))(*arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)

        with WebhookServer() as hook:
            port = hook.url.split(":")[2].partition("/")[0]
            Webhook().send(alarm(f"http://rebind.example.com:{port}/"), SAID)

        assert len(hook.posts) == 1
        assert hook.requests[0][2]["Host"] == f"rebind.example.com:{port}"
        assert next(answers, None) == ("169.254.169.254",)

    @pytest.mark.parametrize("allowed", ["127.0.0.0/8", "10.0.0.1,127.0.0.1", "::1,127.0.0.0/24"])
    def test_a_way_out_that_is_listed_is_taken(self, allowed: str) -> None:
        with WebhookServer() as hook:
            Webhook(WebhookAllowList.parse(allowed)).send(alarm(hook.url), SAID)

        assert len(hook.posts) == 1

    @pytest.mark.parametrize("allowed", ["10.0.0.0/8", "127.0.0.2", "hooks.example.com,::1"])
    def test_a_way_out_that_is_not_listed_is_not_taken(self, allowed: str) -> None:
        with WebhookServer() as hook:
            with pytest.raises(OSError, match="is not listed in WARREN_WEBHOOK_ALLOW"):
                Webhook(WebhookAllowList.parse(allowed)).send(alarm(hook.url), SAID)

            assert hook.requests == []

    @pytest.mark.parametrize(
        ("host", "leads_to", "is_sent"),
        [
            ("inner.example.com", ["127.0.0.1"], True),
            ("inner.example.com", ["127.0.0.1", "10.0.0.1"], False),
            ("inner.example.com", ["127.0.0.2"], False),
            ("Hooks.Example.com", ["127.0.0.1"], True),
            ("hooks.example.com", ["169.254.169.254"], False),
            ("hooks.example.com.evil.example", ["10.0.0.1"], False),
        ],
    )
    def test_a_name_that_is_not_listed_has_to_lead_into_a_listed_network(
        self, monkeypatch: pytest.MonkeyPatch, host: str, leads_to: list[str], is_sent: bool
    ) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", resolver(*leads_to))
        webhook = Webhook(WebhookAllowList.parse("127.0.0.1/32, hooks.example.com"))

        with WebhookServer() as hook:
            port = hook.url.split(":")[2].partition("/")[0]
            with (
                nullcontext()
                if is_sent
                else pytest.raises(OSError, match=r"is never called|is not listed")
            ):
                webhook.send(alarm(f"http://{host}:{port}/"), SAID)

        assert len(hook.posts) == is_sent

    def test_a_target_that_somebody_wrote_into_the_database_is_checked_too(self) -> None:
        with pytest.raises(ValueError, match="not allowed as a webhook") as refused:
            Webhook().send(alarm("http://169.254.169.254/?token=hush"), SAID)

        assert "hush" not in str(refused.value)

    def test_a_silent_server_is_left(self) -> None:
        webhook = Webhook(silence_seconds=0.2)

        with Silence() as server, pytest.raises(OSError, match="timed out"):
            webhook.send(alarm(f"http://127.0.0.1:{server.port}/"), SAID)

    @pytest.mark.parametrize(
        ("scheme", "drip"),
        [
            ("http", b"H"),
            ("http", b"HTTP/1.1 200 OK\r\n"),
            ("https", b"\x16\x03\x03\x40\x00"),  # a long record of TLS
        ],
    )
    def test_a_server_that_never_comes_to_an_end_is_cut_off(self, scheme: str, drip: bytes) -> None:
        began = time.monotonic()

        with Silence(drip=drip) as server, pytest.raises(TimeoutError, match=r"longer than 0\.5 s"):
            Webhook(send_seconds=0.5).send(alarm(f"{scheme}://127.0.0.1:{server.port}/"), SAID)

        assert time.monotonic() - began < SILENCE_SECONDS

    def test_a_huge_answer_is_not_read(self) -> None:
        with WebhookServer() as hook:
            hook.answer = b"x" * 50_000_000
            began = time.monotonic()

            Webhook().send(alarm(hook.url), SAID)

        assert time.monotonic() - began < SILENCE_SECONDS


def resolver(*addresses: str) -> Any:
    def resolve(_host: str, port: int, *_: object, **_options: object) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    return resolve
