"""The words of alarms, and what each service is sent."""

import base64
import hmac
import json
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from msgspec.structs import replace

from warren.scheduler.alarms.events import (
    Absence,
    Failure,
    IncidentNews,
    Missed,
    News,
    Overdue,
    Return,
    SchedulerUnwell,
    Summary,
    Unhealthy,
    bare,
    from_text,
    to_text,
)
from warren.scheduler.alarms.message import (
    TAIL_LINES,
    Message,
    MessageContext,
    message,
    signed_body,
    style_of,
    webhook_body,
    webhook_refusal,
)

#: 2026-11-20 12:00:00 UTC
NOON = 1_795_176_000_000
CONTEXT = MessageContext("Europe/Berlin", "https://console.example.com/")


def failure(**values: object) -> Failure:
    facts: dict[str, object] = {
        "app": "reports",
        "job": "nightly",
        "run_id": 4711,
        "scheduled_at": NOON,
        "finished_at": NOON + 5_000,
        "timezone": "Asia/Shanghai",
        "status": "FAILED",
        "message": "no orders",
        "address": "reports-7",
        "attempts": 3,
        "shard": "",
        "log_tail": "one\ntwo\n",
    }
    return Failure(**(facts | values))  # type: ignore[arg-type]


OVERDUE = Overdue(
    app="reports", job="nightly", timezone="Asia/Shanghai", overdue=101, skipped_from=NOON
)
MISSED = Missed(
    app="reports",
    job="nightly",
    timezone="Asia/Shanghai",
    count=1,
    first_at=NOON,
    last_at=NOON,
    why="no scheduler could send it in time; its job skips what it missed",
)
ABSENCE = Absence(app="reports", seconds=60, jobs=3)
UNHEALTHY = Unhealthy(
    app="reports", address="reports-7", health_issues=("journal", "disk"), seconds=12
)
STALLED = SchedulerUnwell(app="reports", node="node-1", problems=("unconfirmed",), seconds=11)
OLD_SERVER = SchedulerUnwell(
    app="reports", node="node-1", problems=("server",), servers=("db1:3306",), seconds=11
)
RETURN = Return(app="reports", since=NOON)
SUMMARY = Summary(
    app="reports", job="nightly", count=7, first_at=NOON, last_at=NOON + 60_000, run_ids=(1, 2)
)


class TestWords:
    def test_failure_says_what_a_person_needs(self) -> None:
        said = message(failure(), CONTEXT)

        assert said.subject == "[warren] reports/nightly failed: FAILED"
        assert said.text == (
            "job:     reports/nightly\n"
            "run:     4711, attempt 3\n"
            "due:     2026-11-20 20:00:00+08:00 (Asia/Shanghai)\n"
            "ended:   2026-11-20 20:00:05+08:00 (Asia/Shanghai)\n"
            "status:  FAILED\n"
            "address: reports-7\n"
            "message: no orders\n"
            "see:     https://console.example.com/runs/4711\n"
            "\n"
            "The end of its log:\n"
            "  one\n"
            "  two"
        )

    def test_skipped_due_times_say_from_when_on_and_why(self) -> None:
        said = message(OVERDUE, CONTEXT)

        assert said.subject == "[warren] reports/nightly: due times are skipped"
        assert said.text == (
            "101 runs of reports/nightly are waiting to be sent and are overdue.\n"
            "Until there are fewer, its due times are skipped and recorded, starting at "
            "2026-11-20 20:00:00+08:00 (Asia/Shanghai)."
        )

    def test_missed_due_times_are_told_with_their_cause(self) -> None:
        said = message(MISSED, CONTEXT)

        assert said.subject == "[warren] reports/nightly: due times were missed"
        assert said.text == (
            "The due time 2026-11-20 20:00:00+08:00 (Asia/Shanghai) was skipped: nothing ran. "
            "No further alarm follows about this outage.\n\n"
            "job:     reports/nightly\n"
            "due:     2026-11-20 20:00:00+08:00 (Asia/Shanghai)\n"
            "reason:  no scheduler could send it in time; its job skips what it missed"
        )

    def test_several_missed_due_times_are_told_from_first_to_last(self) -> None:
        several = msgspec.structs.replace(MISSED, count=3, last_at=NOON + 7_200_000)

        said = message(several, CONTEXT).text

        assert said.startswith("3 due times were skipped: nothing ran.")
        assert "first:   2026-11-20 20:00:00+08:00" in said
        assert "last:    2026-11-20 22:00:00+08:00" in said

    def test_times_of_a_job_without_a_zone_are_in_the_schedulers(self) -> None:
        assert "13:00:00+01:00 (Europe/Berlin)" in message(failure(timezone=""), CONTEXT).text

    def test_a_zone_that_is_gone_keeps_no_alarm_back(self) -> None:
        assert "12:00:00+00:00 (UTC)" in message(failure(timezone="Old/Town"), CONTEXT).text

    def test_without_a_console_there_is_no_link(self) -> None:
        assert "see:" not in message(failure(), MessageContext("UTC")).text
        assert "url" not in message(failure(), MessageContext("UTC")).facts

    def test_only_the_last_lines_of_the_log_are_shown(self) -> None:
        tail = "\n".join(f"line {number}" for number in range(100))

        text = message(failure(log_tail=tail), CONTEXT).text

        assert text.count("  line ") == TAIL_LINES
        assert text.endswith("line 99")

    def test_a_shard_is_named(self) -> None:
        assert "shard:   1/3" in message(failure(shard="1/3"), CONTEXT).text

    @pytest.mark.parametrize("breaker", ["\r\n", "\n", "\x0b", "\u2028", "\x85"])
    def test_nothing_breaks_out_of_the_subject(self, breaker: str) -> None:
        evil = f"x{breaker}Bcc: everybody@example.com"

        said = message(failure(job=evil), CONTEXT)

        assert len(said.subject.splitlines()) == 1

    def test_control_characters_do_not_reach_a_terminal(self) -> None:
        said = message(failure(message="\x1b[2Jgone \u202eoga", log_tail="a\x07b"), CONTEXT)

        assert not set(said.text) & {"\x1b", "\x07", "\u202e"}

    @pytest.mark.parametrize(
        ("news", "subject", "words"),
        [
            (ABSENCE, "reports: no executor online", "3 of its jobs are enabled"),
            (RETURN, "reports: an executor is back", "2026-11-20 13:00:00+01:00"),
            (
                UNHEALTHY,
                "reports: executor reports-7 reports trouble: journal, disk",
                "had trouble for 12 s",
            ),
            (
                STALLED,
                "reports: scheduler node-1 reports trouble: unconfirmed",
                "- the broker does not confirm what it sends to executors\nUntil then, runs wait",
            ),
            (
                OLD_SERVER,
                "reports: scheduler node-1 reports trouble: server",
                "replaced database server still takes writes (db1:3306)\nSet that server read-only",
            ),
            (SUMMARY, "reports/nightly: 7 more alarms", "runs:    1, 2 (the latest)"),
            (
                replace(SUMMARY, count=1),
                "reports/nightly: 1 more alarm",
                "1 more alarm was held back",
            ),
            (
                replace(ABSENCE, jobs=1),
                "reports: no executor online",
                "1 of its jobs is enabled; its runs end UNDELIVERED",
            ),
        ],
    )
    def test_other_news_has_words_too(self, news: News, subject: str, words: str) -> None:
        said = message(news, CONTEXT)

        assert said.subject == f"[warren] {subject}"
        assert words in said.text


class TestKept:
    @pytest.mark.parametrize(
        "news", [failure(), MISSED, ABSENCE, RETURN, UNHEALTHY, STALLED, SUMMARY]
    )
    def test_news_comes_back_as_it_was_kept(self, news: News) -> None:
        assert from_text(to_text(news)) == news

    def test_changed_news_is_no_news(self) -> None:
        with pytest.raises(ValueError, match="about"):
            from_text('{"about":"weather"}')

    def test_a_held_failure_is_short(self) -> None:
        long = failure(message="m" * 2_000, log_tail="t" * 2_000)

        assert len(to_text(bare(long))) < 400


class TestBodies:
    said = Message("[warren] a <b> failed", "x & y", {"app": "a", "about": "failure"})

    def body(self, style: str, said: Message | None = None) -> dict[str, object]:
        found: dict[str, object] = json.loads(webhook_body(style, said or self.said, 9))
        return found

    def test_generic_one_has_the_facts_and_the_alarms_id(self) -> None:
        assert self.body("json") == {
            "id": 9,
            "subject": "[warren] a <b> failed",
            "text": "x & y",
            "app": "a",
            "about": "failure",
        }

    def test_each_service_gets_its_shape(self) -> None:
        text = "[warren] a <b> failed\nx & y"

        assert self.body("dingtalk") == {"msgtype": "text", "text": {"content": text}}
        assert self.body("wecom") == {"msgtype": "text", "text": {"content": text}}
        assert self.body("feishu") == {"msg_type": "text", "content": {"text": text}}
        assert self.body("slack") == {"text": "[warren] a &lt;b&gt; failed\nx &amp; y"}

    def test_teams_gets_a_card_in_which_nothing_is_markup(self) -> None:
        said = Message(
            "[warren] a failed", "see [x](http://evil)\n\n**end**", {"url": "http://w/1"}
        )

        found: Any = self.body("teams", said)

        [attachment] = found["attachments"]
        card = attachment["content"]
        assert (found["type"], card["type"]) == ("message", "AdaptiveCard")
        assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
        texts = [block["inlines"][0]["text"] for block in card["body"]]
        assert texts == ["[warren] a failed", "see [x](http://evil)", " ", "**end**"]
        assert card["actions"][0]["url"] == "http://w/1"

    def test_a_signature_is_where_and_of_what_each_service_expects(self) -> None:
        # What the examples of both services give for this secret and second.
        now, secret = 1_599_360_473.5, "this is a secret"
        text = f"1599360473\n{secret}".encode()
        of_feishu = base64.b64encode(hmac.digest(text, b"", "sha256")).decode()
        text = f"1599360473500\n{secret}".encode()
        of_dingtalk = base64.b64encode(hmac.digest(secret.encode(), text, "sha256")).decode()

        body, none = signed_body("feishu", b'{"msg_type":"text"}', secret, now)
        same, query = signed_body("dingtalk", b"{}", secret, now)

        own = {"timestamp": "1599360473", "sign": of_feishu}
        assert (json.loads(body), none) == (own | {"msg_type": "text"}, "")
        given = {"timestamp": ["1599360473500"], "sign": [of_dingtalk]}
        assert (same, parse_qs(query)) == (b"{}", given)

    def test_wecom_gets_what_it_takes_and_no_half_character(self) -> None:
        found = self.body("wecom", Message("s", "字" * 3_000, {}))

        content = found["text"]["content"]  # type: ignore[index]
        assert 2_040 < len(content.encode()) <= 2_048

    @pytest.mark.parametrize(
        ("url", "style"),
        [
            ("https://oapi.dingtalk.com/robot/send?access_token=x", "dingtalk"),
            ("https://OPEN.feishu.cn/open-apis/bot/v2/hook/x", "feishu"),
            ("https://open.larksuite.com/open-apis/bot/v2/hook/x", "feishu"),
            ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x", "wecom"),
            ("https://hooks.slack.com/services/x", "slack"),
            (
                "https://prod-1.westus.logic.azure.com:443/workflows/1/triggers/manual?sig=x",
                "teams",
            ),
            (
                "https://default1.2f.environment.api.powerplatform.com/powerautomate/a/workflows/1",
                "teams",
            ),
            ("https://acme.webhook.office.com/webhookb2/x", "teams"),
            ("https://acme.logic.azure.com.example.com/workflows/1", "json"),
            ("https://2f.environment.api.powerplatform.com/dataverse/1", "json"),
            ("https://hooks.slack.com.example.com/services/x", "json"),
            ("https://example.com/hooks.slack.com", "json"),
        ],
    )
    def test_style_is_told_by_the_host(self, url: str, style: str) -> None:
        assert style_of(url) == style

    def test_a_style_that_is_named_wins(self) -> None:
        assert style_of("https://proxy.example.com/x", "wecom") == "wecom"

    @pytest.mark.parametrize(
        ("style", "answer", "words"),
        [
            ("dingtalk", '{"errcode":0,"errmsg":"ok"}', ""),
            ("dingtalk", '{"errcode":310000,"errmsg":"no keyword"}', "it answered code 310000"),
            ("feishu", '{"code":0,"msg":"success"}', ""),
            ("feishu", '{"StatusCode":0}', ""),
            ("feishu", '{"code":19021,"msg":"sign"}', "it answered code 19021"),
            ("wecom", '{"errcode":93000}', "code 93000"),
            ("wecom", "<html>", "its answer is not JSON"),
            ("wecom", "[" * 60_000, "its answer is not JSON"),
            ("wecom", "[]", "its answer is not a JSON object"),
            ("wecom", "{}", "no code 0"),
            ("slack", "ok", ""),
            ("json", "anything", ""),
        ],
    )
    def test_a_refusal_with_status_200_is_understood(
        self, style: str, answer: str, words: str
    ) -> None:
        complaint = webhook_refusal(style, "https://10.0.0.1/x", answer.encode()).words

        assert words in complaint
        assert bool(words) == bool(complaint)

    def test_what_a_robot_would_refuse_again_is_final_and_told_with_its_words(self) -> None:
        keyword = '{"errcode":310000,"errmsg":"keywords not in content"}'
        cases = [
            ("dingtalk", "oapi.dingtalk.com", keyword, "310000: keywords not in content", True),
            ("dingtalk", "10.0.0.1", keyword, "310000", True),
            ("dingtalk", "open.feishu.cn", keyword, "310000", True),
            ("dingtalk", "oapi.dingtalk.com", '{"errcode":410100}', "410100", False),
            ("dingtalk", "oapi.dingtalk.com", '{"errcode":130101}', "130101", False),
            ("dingtalk", "oapi.dingtalk.com", '{"errcode":-1,"errmsg":"busy"}', "-1: busy", False),
            ("feishu", "open.larksuite.com", '{"code":19021,"msg":"sign"}', "19021: sign", True),
            ("feishu", "open.feishu.cn", '{"code":19024,"msg":["x"]}', "19024", True),
            ("feishu", "open.feishu.cn", '{"code":11232,"msg":"limited"}', "11232: limited", False),
            ("feishu", "open.feishu.cn", '{"code":9499}', "9499", False),
            ("wecom", "qyapi.weixin.qq.com", '{"errcode":93000}', "93000", True),
            ("wecom", "qyapi.weixin.qq.com", '{"errcode":45009}', "45009", False),
        ]

        for style, host, answer, words, is_final in cases:
            refusal = webhook_refusal(style, f"https://{host}/x", answer.encode())

            assert refusal == (f"it answered code {words}", is_final), (style, host, answer)

    @pytest.mark.parametrize("style", ["dingtalk", "feishu", "wecom"])
    @pytest.mark.parametrize(
        "answer",
        [
            '{"errcode":1,"errmsg":"inner words","msg":"inner words"}',
            '{"errcode":"inner words"}',
            '{"code":["inner words"]}',
            '{"code":1234567890123456789}',
            '"inner words"',
        ],
    )
    def test_of_an_answer_nothing_is_told_but_a_short_number(self, style: str, answer: str) -> None:
        complaint = webhook_refusal(style, "https://10.0.0.1/x", answer.encode()).words

        assert complaint.startswith(("it answered ", "its answer "))
        assert "inner" not in complaint
        assert "123456789" not in complaint


@pytest.mark.parametrize(
    ("state", "end", "line"),
    [
        ("opened", "is broken", "The job has not succeeded in time. You get another message"),
        ("reminder", "is still broken", "Nobody has acknowledged it: warren incidents ack."),
        ("closed", "is kept again", "The incident is over. The job was stopped."),
    ],
)
def test_an_incident_tells_what_was_expected_and_since_when(
    state: str, end: str, line: str
) -> None:
    news = IncidentNews(
        app="reports",
        job="nightly",
        timezone="UTC",
        incident_id=7,
        rule="finish_by",
        expected="07:00",
        state=state,
        due_at=NOON,
        opened_at=NOON + 5_000,
        note="The job was stopped." if state == "closed" else "",
    )

    got = message(from_text(to_text(news)), CONTEXT)

    assert got.subject == f"[warren] reports/nightly: finish_by {end}"
    assert line in got.text
    assert "finish_by: 07:00" in got.text
    assert "2026-11-20 12:00:00" in got.text
    assert (got.facts["about"], got.facts["incident_id"], got.facts["state"]) == (
        "incident",
        7,
        state,
    )
