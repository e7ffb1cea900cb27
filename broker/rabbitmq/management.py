"""Which policies an administrator has laid over Warren's queues, by RabbitMQ's management API.

AMQP does not tell them. The API answers accounts with the tag `management`, on ports of its own.
"""

import base64
import json
import ssl
from collections import defaultdict
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, unquote, urlsplit

#: The usual ports of the API.
PORTS = {"amqp": 15_672, "amqps": 15_671}
_SECONDS = 3.0
_LARGEST_BYTES = 50_000_000
_PREFIX = "warren."
#: What a policy can do to messages: drop, delay or divert them.
_HARMFUL = frozenset(
    {
        "max-length",
        "max-length-bytes",
        "overflow",
        "message-ttl",
        "expires",
        "delivery-limit",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
    }
)


class Unanswered(Exception):
    """The API does not say which policies there are; the text is why."""


def policies(
    url: str, *, management_url: str | None = None, ca_file: str | None = None
) -> list[str]:
    """Return a line for each policy that can lose or delay messages in Warren's queues.

    `url` is the broker's. The API is at `management_url`, or at the usual port of the broker's
    host; the account is the broker's unless that URL names one.

    Raises:
        Unanswered: nothing answers there, or not to this account.

    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for queue in _queues(url, management_url, ca_file):
        name, definition = queue.get("name"), queue.get("effective_policy_definition")
        if not str(name).startswith(_PREFIX) or not isinstance(definition, dict):
            continue
        if harmful := sorted(_HARMFUL & set(definition)):
            named = [queue.get("policy"), queue.get("operator_policy")]
            policy = " and ".join(str(one) for one in named if one)
            found[policy, ", ".join(harmful)].append(str(name))
    return [
        f"policy {policy} ({keys}) applies to {min(names)}"
        + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        for (policy, keys), names in sorted(found.items())
    ]


def _queues(url: str, management_url: str | None, ca_file: str | None) -> list[dict[str, Any]]:
    broker, api = urlsplit(url), urlsplit(management_url or "")
    is_encrypted = (api.scheme or broker.scheme) in ("https", "amqps")
    host = api.hostname or broker.hostname or "localhost"
    port = api.port or (PORTS[broker.scheme] if not api.scheme else None) or (80, 443)[is_encrypted]
    link: HTTPConnection
    if is_encrypted:
        trusted = ssl.create_default_context(cafile=ca_file)
        link = HTTPSConnection(host, port, timeout=_SECONDS, context=trusted)
    else:
        link = HTTPConnection(host, port, timeout=_SECONDS)
    who = api if api.username else broker
    account = f"{unquote(who.username or 'guest')}:{unquote(who.password or 'guest')}"
    vhost = quote(unquote(broker.path[1:]) or "/", safe="")
    columns = "name,policy,operator_policy,effective_policy_definition"
    try:
        link.request(
            "GET",
            f"{api.path.rstrip('/')}/api/queues/{vhost}?columns={columns}",
            headers={"Authorization": f"Basic {base64.b64encode(account.encode()).decode()}"},
        )
        answer = link.getresponse()
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise Unanswered(f"the API at {host}:{port} wants an account with the tag management")
        if answer.status != HTTPStatus.OK:
            raise Unanswered(f"{host}:{port} answers with status {answer.status}")
        found = json.loads(answer.read(_LARGEST_BYTES))
    except (OSError, HTTPException) as error:
        raise Unanswered(f"no management API answers at {host}:{port}") from error
    except ValueError as error:
        raise Unanswered(f"{host}:{port} does not answer like a management API") from error
    finally:
        link.close()
    return [queue for queue in found if isinstance(queue, dict)] if isinstance(found, list) else []
