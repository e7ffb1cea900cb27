"""Names and properties of exchanges and queues; other modules declare them.

    warren.trigger  direct  -> warren.run.<app>.<address>, warren.cmd.<app>.<address>.<boot>
    warren.ask      direct  -> warren.cmd.<app>.<address>.<boot>
    warren.reply    direct  -> warren.callback, warren.beat.<node>, warren.answer.<node>
    warren.dlx      fanout  -> warren.dead

A queue is bound by a routing key equal to its name, unless stated otherwise. Nothing here needs
more than RabbitMQ 3.10 or uses what 4.x removed. Only questions are accepted through warren.ask, so
an account that may only write there, such as a console's, cannot give commands.
"""

import re

from warren.broker.messages import ADDRESS_PATTERN, APP_PATTERN, BOOT_ID_PATTERN
from warren.broker.transport import Queue

TRIGGER_EXCHANGE = "warren.trigger"
ASK_EXCHANGE = "warren.ask"
REPLY_EXCHANGE = "warren.reply"
DEAD_LETTER_EXCHANGE = "warren.dlx"
#: Every exchange and its type.
EXCHANGES = {
    TRIGGER_EXCHANGE: "direct",
    ASK_EXCHANGE: "direct",
    REPLY_EXCHANGE: "direct",
    DEAD_LETTER_EXCHANGE: "fanout",
}

CALLBACK_KEY = "callback"
HEARTBEAT_KEY = "heartbeat"

#: The queue of rejected messages; the oldest are dropped.
DEAD_QUEUE = Queue(
    name="warren.dead",
    exchange=DEAD_LETTER_EXCHANGE,
    routing_keys=("",),
    max_length=10_000,
    max_bytes=64_000_000,
)


def run_queue(app: str, address: str, *, quorum: bool = False) -> Queue:
    """Return the queue of triggers for one executor; it outlives the executor's boots."""
    name = f"warren.run.{check_app(app)}.{check_address(address)}"
    return Queue(
        name=name, exchange=TRIGGER_EXCHANGE, routing_keys=(name,), dead_letter=True, quorum=quorum
    )


def command_queue(app: str, address: str, boot_id: str, *, quorum: bool = False) -> Queue:
    """Return the queue of commands and questions for one boot; deleted 600 s after the boot."""
    name = f"warren.cmd.{check_app(app)}.{check_address(address)}.{check_boot_id(boot_id)}"
    return Queue(
        name=name,
        exchange=TRIGGER_EXCHANGE,
        routing_keys=(name,),
        asked_through=ASK_EXCHANGE,
        expires_seconds=600,
        message_ttl_seconds=60,
        quorum=quorum,
    )


def callback_queue(*, quorum: bool = False) -> Queue:
    """Return the single queue of all executors' callbacks, shared by all schedulers."""
    return Queue(
        name="warren.callback",
        exchange=REPLY_EXCHANGE,
        routing_keys=(CALLBACK_KEY,),
        dead_letter=True,
        quorum=quorum,
    )


def heartbeat_queue(node: str, *, quorum: bool = False) -> Queue:
    """Return one scheduler's own queue of all heartbeats; they expire after 10 s."""
    return _own_queue(f"warren.beat.{check_address(node)}", HEARTBEAT_KEY, 10, quorum=quorum)


def answer_key(node: str) -> str:
    """Return the routing key of answers to one scheduler or console."""
    return f"answer.{check_address(node)}"


def answer_queue(node: str, *, quorum: bool = False) -> Queue:
    """Return one node's queue of answers to its questions; they expire after 60 s."""
    return _own_queue(f"warren.answer.{check_address(node)}", answer_key(node), 60, quorum=quorum)


def _own_queue(name: str, routing_key: str, ttl_seconds: float, *, quorum: bool) -> Queue:
    """Return a queue that only one process reads, and that goes with it."""
    return Queue(
        name=name,
        exchange=REPLY_EXCHANGE,
        routing_keys=(routing_key,),
        exclusive=True,
        expires_seconds=60,
        message_ttl_seconds=ttl_seconds,
        quorum=quorum,
    )


def check_app(app: str) -> str:
    """Return `app` if it is a valid app name, else raise ValueError."""
    return _check("app", app, APP_PATTERN)


def check_address(address: str) -> str:
    """Return `address` if it is a valid address or node name, else raise ValueError."""
    return _check("address", address, ADDRESS_PATTERN)


def check_boot_id(boot_id: str) -> str:
    """Return `boot_id` if it is a valid boot id, else raise ValueError."""
    return _check("boot id", boot_id, BOOT_ID_PATTERN)


def _check(what: str, name: str, pattern: str) -> str:
    if re.fullmatch(pattern, name) is None:
        raise ValueError(f"expected {what} to be {pattern}, got: {name[:200]!r}")
    return name
