"""The body of a webhook: our own JSON, or what DingTalk, Feishu, WeCom and Slack expect.

The formats are from their pages on custom robots and incoming webhooks. A robot that requires a
keyword finds `warren` in the first line.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from warren.scheduler.alarms.channels.message import Message

GENERIC = "json"
#: The style of each service, by its host.
_HOSTS = {
    "oapi.dingtalk.com": "dingtalk",
    "api.dingtalk.com": "dingtalk",
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "feishu",
    "qyapi.weixin.qq.com": "wecom",
    "hooks.slack.com": "slack",
}
#: WeCom takes 2,048 bytes of text, the others 20 kB and more.
_WECOM_BYTES = 2_048
_TEXT_LENGTH = 6_000
_LARGEST_CODE = 999_999_999


def style_of(url: str, style: str = "") -> str:
    """Return the given style, else that of the URL's host."""
    return style or _HOSTS.get((urlsplit(url).hostname or "").lower(), GENERIC)


def body(style: str, message: Message, alarm_id: int) -> bytes:
    """Return the body; `alarm_id` is the same when an alarm is sent again."""
    return msgspec.json.encode(_BODIES[style](message, alarm_id))


def refusal(style: str, answer: bytes) -> str:
    """Return the error that a service reports with status 200, or "".

    DingTalk and WeCom send `errcode`, Feishu `code`; anything but 0 is an error. Only the code is
    repeated, and only if it is a number: whoever chose the URL may see it, and the URL may lead to
    an internal service.
    """
    if style not in ("dingtalk", "feishu", "wecom"):
        return ""
    try:
        body = msgspec.json.decode(answer)
    except (ValueError, RecursionError):
        return "its answer is not JSON"
    if not isinstance(body, dict):
        return "its answer is not a JSON object"
    code = next((body[key] for key in ("errcode", "code", "StatusCode") if key in body), None)
    if code == 0:
        return ""
    is_number = isinstance(code, int) and abs(code) <= _LARGEST_CODE
    return f"it answered code {code}" if is_number else "its answer has no code 0"


def _generic(message: Message, alarm_id: int) -> dict[str, Any]:
    own = {"id": alarm_id, "subject": message.subject, "text": message.text}
    return own | message.facts


def _dingtalk(message: Message, _alarm_id: int) -> dict[str, Any]:
    return {"msgtype": "text", "text": {"content": _text(message)}}


def _feishu(message: Message, _alarm_id: int) -> dict[str, Any]:
    return {"msg_type": "text", "content": {"text": _text(message)}}


def _wecom(message: Message, _alarm_id: int) -> dict[str, Any]:
    text = _text(message).encode()[:_WECOM_BYTES].decode(errors="ignore")
    return {"msgtype": "text", "text": {"content": text}}


def _slack(message: Message, _alarm_id: int) -> dict[str, Any]:
    text = _text(message).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": text}


def _text(message: Message) -> str:
    return f"{message.subject}\n{message.text}"[:_TEXT_LENGTH]


_BODIES: dict[str, Callable[[Message, int], dict[str, Any]]] = {
    GENERIC: _generic,
    "dingtalk": _dingtalk,
    "feishu": _feishu,
    "wecom": _wecom,
    "slack": _slack,
}
STYLES = tuple(_BODIES)
