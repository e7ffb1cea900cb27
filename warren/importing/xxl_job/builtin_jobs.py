"""Jobs of XXL-JOB's `httpJobHandler` and `commandJobHandler` become those of Warren's own.

Their params there: from 3.x on JSON, before that lines `url:`, `method:` and `data:`, and at first
a URL alone; for commands, words separated by spaces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import msgspec

#: What 3.x takes when a param does not say.
_METHOD, _CONTENT_TYPE, _TIMEOUT_MS = "POST", "application/json", 3_000
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
_KEYS = {*("url", "method", "contentType", "headers", "cookies", "timeout", "data", "form", "auth")}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinJob:
    """The handler and the param of a job here, and remarks about what differs."""

    handler: str
    param: str
    remarks: tuple[str, ...] = ()


def builtin_job(handler: str, param: str) -> BuiltinJob | None:
    """Return what becomes of a job with such a handler; None for other handlers.

    Raises:
        ValueError: the param is nothing that the handler there understands.

    """
    name = handler.strip().lower()
    if name == "commandjobhandler":
        return _command(param)
    return _http(param) if name == "httpjobhandler" else None


def _command(param: str) -> BuiltinJob:
    words = param.split()
    if not words:
        raise ValueError("it is no command")
    return BuiltinJob(handler="warren.command", param=_json({"args": words}))


def _http(param: str) -> BuiltinJob:
    values = _values(param.strip())
    if unknown := values.keys() - _KEYS:
        raise ValueError(f"it has {min(unknown)!r}, which httpJobHandler does not know")
    url, method = str(values.get("url") or "").strip(), str(values.get("method") or _METHOD)
    if not url.startswith(("http://", "https://")) or method.upper() not in _METHODS:
        raise ValueError("it has no url with http(s), or no method of HTTP")
    remarks = ["a status other than 200 to 299 is a failure here"]
    headers = {str(name): str(value) for name, value in _mapping(values, "headers").items()}
    if cookies := _mapping(values, "cookies"):
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
    if values.get("auth"):
        remarks.append("its auth is left out: name it in headers, as {secret:NAME}")
    request: dict[str, Any] = {"url": url, "method": method.upper()}
    if form := _mapping(values, "form"):
        request["body"] = urlencode(form)
        headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
    elif data := values.get("data"):
        request["body"] = data if isinstance(data, str) else _json(data)
        headers.setdefault("Content-Type", str(values.get("contentType") or _CONTENT_TYPE))
    if headers:
        request["headers"] = headers
    request["timeout"] = _seconds(values.get("timeout"))
    return BuiltinJob(handler="warren.http", param=_json(request), remarks=tuple(remarks))


def _values(param: str) -> Mapping[str, Any]:
    if param.startswith("{"):
        try:
            return msgspec.json.decode(param, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ValueError(f"it is no JSON: {error}") from None
    if param.startswith(("http://", "https://")):
        return {"url": param, "method": "GET"}
    values: dict[str, Any] = {}
    for line in filter(None, map(str.strip, param.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError("it has a line without a colon")
        values[name.strip()] = value.strip()
    return values


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    mapping = values.get(name) or {}
    if not isinstance(mapping, Mapping):
        raise ValueError(f"its {name} are no object")  # noqa: TRY004 - the value of a param
    return mapping


def _seconds(milliseconds: Any) -> float:
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    known = milliseconds if is_number and milliseconds > 0 else _TIMEOUT_MS
    return min(known / 1_000, 86_400.0)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
