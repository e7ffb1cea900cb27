"""The body of a webhook: our own JSON, or what DingTalk, Feishu, WeCom, Slack and Teams expect.

The formats are from their pages on custom robots and incoming webhooks. A robot that requires a
keyword finds `warren` in the first line.
"""

import base64
import hmac
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from warren.scheduler.alarms.channels.message import Message

GENERIC = "json"
#: Whose robots may require a signature.
SIGNED = ("dingtalk", "feishu")
#: The style of each service, by its host.
_HOSTS = {
    "oapi.dingtalk.com": "dingtalk",
    "api.dingtalk.com": "dingtalk",
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "feishu",
    "qyapi.weixin.qq.com": "wecom",
    "hooks.slack.com": "slack",
}
#: The hosts of Power Automate, whose workflows post cards into Teams, and of the older connectors.
_TEAMS_HOSTS = (".logic.azure.com", ".api.powerplatform.com", ".webhook.office.com")
_TEAMS_PATH = re.compile(r"/(workflows|webhookb2)/")
#: WeCom takes 2,048 bytes of text, the others 20 kB and more.
_WECOM_BYTES = 2_048
_TEXT_LENGTH = 6_000
_LARGEST_CODE = 999_999_999


def style_of(url: str, style: str = "") -> str:
    """Return the given style, else that of the URL's host."""
    if style:
        return style
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host.endswith(_TEAMS_HOSTS) and _TEAMS_PATH.search(parts.path):
        return "teams"
    return _HOSTS.get(host, GENERIC)


def body(style: str, message: Message, alarm_id: int) -> bytes:
    """Return the body; `alarm_id` is the same when an alarm is sent again."""
    return msgspec.json.encode(_BODIES[style](message, alarm_id))


def signed(style: str, body: bytes, secret: str, now: float) -> tuple[bytes, str]:
    """Return a body and what is added to the URL's query, with a robot's signature.

    DingTalk takes it in the query, in milliseconds, Feishu and Lark in the body, in seconds, with
    the text that DingTalk signs as the key.
    """
    at = str(int(now * 1_000) if style == "dingtalk" else int(now))
    text = f"{at}\n{secret}".encode()
    if style == "dingtalk":
        sign = hmac.digest(secret.encode(), text, "sha256")
        return body, urlencode({"timestamp": at, "sign": base64.b64encode(sign)})
    sign = base64.b64encode(hmac.digest(text, b"", "sha256"))
    own = {"timestamp": at, "sign": sign.decode()}
    return msgspec.json.encode(own | msgspec.json.decode(body, type=dict[str, Any])), ""


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


def _teams(message: Message, _alarm_id: int) -> dict[str, Any]:
    """Return a message with an Adaptive Card.

    A run of text is no Markdown, so what a job has printed makes no links; each line is a block of
    its own, as clients differ in what they make of line breaks.
    """
    title = {"type": "TextRun", "text": message.subject, "weight": "Bolder"}
    lines = message.text[:_TEXT_LENGTH].split("\n")
    texts = [{"type": "TextRun", "text": line or " ", "fontType": "Monospace"} for line in lines]
    blocks = [{"type": "RichTextBlock", "inlines": [text]} for text in (title, *texts)]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": message.subject,
        "msteams": {"width": "Full"},
        "body": [*blocks[:2], *({**block, "spacing": "None"} for block in blocks[2:])],
    }
    if url := message.facts.get("url"):
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Run", "url": url}]
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def _text(message: Message) -> str:
    return f"{message.subject}\n{message.text}"[:_TEXT_LENGTH]


_BODIES: dict[str, Callable[[Message, int], dict[str, Any]]] = {
    GENERIC: _generic,
    "dingtalk": _dingtalk,
    "feishu": _feishu,
    "wecom": _wecom,
    "slack": _slack,
    "teams": _teams,
}
STYLES = tuple(_BODIES)
