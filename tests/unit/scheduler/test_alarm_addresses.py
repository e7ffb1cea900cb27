"""Which webhooks and mail servers are accepted, and that a refusal holds no secret."""

import pytest

from warren.scheduler.alarms.addresses import (
    MailServer,
    Security,
    check_webhook,
    is_email,
    without_secret,
)

GOOD = [
    "https://example.com/hook?token=x",
    "http://example.com:8080/",
    "http://127.0.0.1:9000/intranet",
    "http://10.1.2.3/x",
    "https://[::1]/x",
    "http://[fd00::1]/x",
]
NO_URL = [
    "",
    "example.com/hook",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "https://",
    "https:///path",
    "http://example.com:99999/",
    "http://example.com:0/",
    "http://example.com/a b",
    "http://example.com/\nHost: other",
    "http://exämple.com/",
    "http://[::1",
    f"https://example.com/{'x' * 512}",
]


@pytest.mark.parametrize("url", GOOD)
def test_http_urls_may_be_webhooks_also_of_the_intranet(url: str) -> None:
    check_webhook(url)


@pytest.mark.parametrize("url", NO_URL)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected webhook to be an http"):
        check_webhook(url)


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="no user name or password") as refused:
        check_webhook("https://me:hush@example.com/")

    assert "hush" not in str(refused.value)


class TestMailServer:
    def test_everything_in_the_url_is_read(self) -> None:
        server = MailServer.parse("smtp+starttls://me%40x:p%40ss%2F@mail.example.com?from=w@x.org")

        assert server == MailServer(
            host="mail.example.com",
            port=587,
            security=Security.STARTTLS,
            sender="w@x.org",
            user="me@x",
            password="p@ss/",
        )
        assert "p@ss" not in repr(server)

    @pytest.mark.parametrize(
        ("url", "port"),
        [
            ("smtp://h?from=a@b", 25),
            ("smtps://h?from=a@b", 465),
            ("smtp://h:2525?from=a@b", 2525),
            ("smtp://[::1]:26/?from=a@b", 26),
        ],
    )
    def test_port_is_the_schemes_own_unless_named(self, url: str, port: int) -> None:
        assert MailServer.parse(url).port == port

    @pytest.mark.parametrize(
        "url",
        [
            "http://u:hush@h?from=a@b",
            "u:hush@h",
            "smtp://u:hush@?from=a@b",
            "smtp://u:hush@h:0?from=a@b",
            "smtp://u:hush@h:port?from=a@b",
            "smtp://u:hush/more@h?from=a@b",
            "smtp://u:hush@h",
            "smtp://u:hush@h?from=nobody",
            "smtp://u:hush@h?from=a@b%0d%0aBcc:c@d",
            "smtp://u:hush@h?form=a@b&from=a@b",
            "smtp://u:hush@h/path?from=a@b",
            "smtp://:hush@h?from=a@b",
            "smtp://hush@h?from=a@b",
            "smtp://u:hush@[h?from=a@b",
        ],
    )
    def test_a_wrong_url_is_refused_without_its_password(self, url: str) -> None:
        with pytest.raises(ValueError, match=r"expected|unknown|the port") as refused:
            MailServer.parse(url)

        assert "hush" not in str(refused.value)

    @pytest.mark.parametrize(
        "text",
        [
            *("a", "a@", "@b", "a b@c", "a@b,c@d", "a@b\nBcc: c@d", "<a@b>"),
            *("a@[b", "a@[", "a@b]", "a@[127.0.0.1]", "a@b(", "(c)a@b", "a@b:c", "a\\b@c"),
        ],
    )
    def test_what_is_no_address_is_told(self, text: str) -> None:
        assert not is_email(text)
        assert is_email("ops+alarm@example.com")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.com:8443/hush?token=hush", "https://hooks.example.com/…"),
        ("http://127.0.0.1/hush", "http://127.0.0.1/…"),
        ("http://[::ffff:127.0.0.1]:8080/hush", "http://[::ffff:127.0.0.1]/…"),
    ],
)
def test_of_a_webhook_only_scheme_and_host_are_shown(url: str, shown: str) -> None:
    assert without_secret(url) == shown
