"""What executors of XXL-JOB send is read in all its spellings, and refused in one line."""

import json

import pytest

from warren.broker.messages import Trigger
from warren.executor.gateway import protocol
from warren.executor.gateway.protocol import BadRequest, CallFailed, RemoteResult

REGISTRATION = {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": "http://a"}


def trigger(**fields: object) -> Trigger:
    facts = {"run_id": 7, "job_id": 3, "boot_id": "b", "kind": "CRON", "handler": "h"}
    return Trigger(**(facts | {"scheduled_at_ms": 5_000, "routed_at_ms": 6_000} | fields))


class TestRegistration:
    @pytest.mark.parametrize(
        ("key", "app"),
        [("demo", "demo"), (" Demo_App ", "demo-app"), ("xxl.job.Sample", "xxl-job-sample")],
    )
    def test_its_key_becomes_an_app(self, key: str, app: str) -> None:
        body = json.dumps(REGISTRATION | {"registryKey": key}).encode()

        assert protocol.read_registration(body).app == app

    @pytest.mark.parametrize("key", ["", "a", "1st-app", "x" * 65, "中文应用"])
    def test_key_that_makes_no_app_is_refused(self, key: str) -> None:
        body = json.dumps(REGISTRATION | {"registryKey": key}).encode()

        with pytest.raises(BadRequest, match="expected registryKey to be an app's name"):
            _ = protocol.read_registration(body).app

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"\xff",
            b"null",
            b"[]",
            b'"EXECUTOR"',
            json.dumps(REGISTRATION | {"registryValue": None}).encode(),
            json.dumps(REGISTRATION | {"registryKey": 5}).encode(),
            json.dumps(REGISTRATION | {"registryGroup": "ADMIN"}).encode(),
        ],
    )
    def test_what_is_none_is_refused(self, body: bytes) -> None:
        with pytest.raises(BadRequest):
            protocol.read_registration(body)


#: JSON that is nested deeper than any stack.
NESTED = b"[" * 200_000 + b"]" * 200_000


class TestCallback:
    @pytest.mark.parametrize(
        ("item", "result"),
        [
            ({"handleCode": 200, "handleMsg": "done"}, RemoteResult(7, 200, "done")),
            ({"handleCode": 200, "handleMsg": None}, RemoteResult(7, 200, "")),
            ({"handleCode": 200, "handleMsg": {"a": [1]}}, RemoteResult(7, 200, '{"a":[1]}')),
            ({"handleCode": 200, "handleMsg": 3.5}, RemoteResult(7, 200, "3.5")),
            ({"executeResult": {"code": 500, "msg": "old"}}, RemoteResult(7, 500, "old")),
            (
                {"handleCode": 502, "handleMsg": "new", "executeResult": {"code": 200}},
                RemoteResult(7, 502, "new"),
            ),
            ({}, RemoteResult(7, 0, "")),
        ],
    )
    def test_result_is_read_as_each_version_writes_it(
        self, item: dict[str, object], result: RemoteResult
    ) -> None:
        items = [{"logId": 7, "logDateTim": 1} | item]

        assert protocol.read_results(json.dumps(items).encode()) == [result]
        listed = {"callbackList": items}
        assert protocol.read_results(json.dumps(listed).encode()) == [result]

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (b'{"mean": NaN, "most": -Infinity}', '{"mean":"NaN","most":"-Infinity"}'),
            (b'"a \\ud83d b"', "a ? b"),
            (b'"a \\ud83d\\ude00 NaN b"', "a \U0001f600 NaN b"),
        ],
    )
    def test_message_that_only_python_calls_json_is_read(self, message: bytes, text: str) -> None:
        body = b'[{"logId": 7, "handleCode": 200, "handleMsg": %s}]' % message

        assert protocol.read_results(body) == [RemoteResult(7, 200, text)]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\xff",
            b'[{"logId": NaN}]',
            b'[{"logId": 7, "handleCode": null}]',
            b"{}",
            b"[{}]",
            b'[{"logId": "7"}]',
            b'[{"logId": -1}]',
            b'[{"logId": 9007199254740993}]',
            b'[{"logId": 7.5}]',
            b'[{"logId": 7, "handleCode": "200"}]',
            b'[{"logId": 7}',
            b"7",
            b'[{"logId": 7, "handleMsg": %s}]' % NESTED,
        ],
    )
    def test_what_is_none_is_refused(self, body: bytes) -> None:
        with pytest.raises(BadRequest, match="cannot read the request"):
            protocol.read_results(body)

    def test_more_results_than_any_executor_sends_are_refused(self) -> None:
        items = [{"logId": number} for number in range(10_001)]

        assert len(protocol.read_results(json.dumps(items[1:]).encode())) == 10_000
        with pytest.raises(BadRequest, match="expected up to 10,000 results, got: 10,001"):
            protocol.read_results(json.dumps(items).encode())


class TestAnswer:
    @pytest.mark.parametrize(
        ("body", "code", "text"),
        [
            (b'{"code": 200, "msg": null}', 200, ""),
            (b'{"code":500,"msg":"busy","content":null,"data":null}', 500, "busy"),
            (
                b'[{"logId":7,"logDateTim":1,"handleCode":500,"handleMsg":"no task"}]',
                500,
                "no task",
            ),
            (b'{"code": 200}', 200, ""),
        ],
    )
    def test_it_is_read(self, body: bytes, code: int, text: str) -> None:
        answer = protocol.read_answer(body)

        assert (answer.code, answer.text) == (code, text)

    @pytest.mark.parametrize("content", ["content", "data"])
    def test_what_it_holds_is_under_one_of_two_names(self, content: str) -> None:
        body = json.dumps({"code": 200, content: {"logContent": "x"}}).encode()

        assert protocol.read_answer(body).content == {"logContent": "x"}

    @pytest.mark.parametrize(
        "body",
        [
            *(b"", b"<html>", b"{}", b"[]", b'{"code": "200"}', b'{"code": true}', b"\xff"),
            b'{"code": 200, "msg": %s}' % NESTED,
        ],
    )
    def test_what_is_none_is_no_answer(self, body: bytes) -> None:
        with pytest.raises(CallFailed, match="it answered"):
            protocol.read_answer(body)


class TestOrder:
    def test_it_has_all_that_executors_ask_for(self) -> None:
        order = protocol.order_of(
            trigger(param="p", timeout_seconds=1.5, shard_index=1, shard_total=3)
        )

        assert order == {
            "jobId": 3,
            "executorHandler": "h",
            "executorParams": "p",
            "executorBlockStrategy": "SERIAL_EXECUTION",
            "executorTimeout": 2,
            "logId": 7,
            "logDateTime": 6_000,
            "logDateTim": 6_000,
            "glueType": "BEAN",
            "glueSource": "",
            "glueUpdatetime": 0,
            "broadcastIndex": 1,
            "broadcastTotal": 3,
        }

    def test_script_goes_along_with_a_number_of_its_version(self) -> None:
        one, same, other = (
            protocol.order_of(trigger(handler="", script_language="shell", script_source=source))
            for source in ("echo 1", "echo 1", "echo 2")
        )

        assert (one["glueType"], one["glueSource"]) == ("GLUE_SHELL", "echo 1")
        assert one["glueUpdatetime"] == same["glueUpdatetime"] != other["glueUpdatetime"]

    def test_long_timeout_stays_a_number_of_java(self) -> None:
        assert protocol.order_of(trigger(timeout_seconds=2.0**40))["executorTimeout"] == 2**31 - 1


def test_reply_is_of_the_protocol() -> None:
    assert json.loads(protocol.reply()) == {
        "code": 200,
        "msg": None,
        "content": None,
        "data": None,
    }
    assert json.loads(protocol.reply("no"))["code"] == 500


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"code":200,"data":{"fromLineNum":1,"logContent":"one\\ntwo\\nthr', "one\ntwo\n"),
        (b'{"logContent" : "one\\ntwo\\\\nthr', "one\n"),
        (b'{"logContent":"one\\\\\\ntwo', "one\\\n"),
        (b'{"logContent":"\\u00e4\\n\\u00', "\u00e4\n"),
        (b'{"logContent":"long\\ud83d\\ude', "long"),
        (b'{"logContent":"long\\', "long"),
        ('{"logContent":"l\u00e4'.encode()[:-1], "l"),
    ],
)
def test_lines_of_an_answer_that_is_cut_are_read(body: bytes, text: str) -> None:
    assert protocol.read_cut_log(body).content == {"logContent": text, "isCut": True}


@pytest.mark.parametrize(
    "body", [b"", b'{"code": 200', b'{"logContent": 5', b'{"logContent":"\xff\\n']
)
def test_what_is_cut_and_no_log_is_not_read(body: bytes) -> None:
    with pytest.raises(CallFailed):
        protocol.read_cut_log(body)
