"""What holds for any message and any order of events, not only for the ones we thought of."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.signatures import signature
from warren.broker import topology
from warren.broker.codec import VERSION, decode, encode
from warren.broker.errors import BadMessage, Forged, Malformed
from warren.broker.memory import MemoryBroker
from warren.broker.messages import NUMBER_LIMIT, Kill, Message, ToExecutor, ToScheduler, Trigger
from warren.broker.signing import ClusterKeys, Direction, Sealer
from warren.broker.transport import Confirm, Consumer, Delivery, Outgoing, Publisher

SECRET = "s" * 32
NUMBERS = st.integers(min_value=0, max_value=NUMBER_LIMIT)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
RUN = topology.run_queue("app1", "host-1")


@given(NUMBERS, NUMBERS, TEXTS, TEXTS, st.floats(min_value=0, max_value=NUMBER_LIMIT))
def test_any_trigger_comes_back_as_it_went(
    run_id: int, job_id: int, param: str, source: str, timeout_seconds: float
) -> None:
    trigger = Trigger(
        run_id=run_id,
        job_id=job_id,
        boot_id="b",
        kind="CRON",
        handler="h",
        param=param,
        script_source=source,
        scheduled_at_ms=run_id,
        timeout_seconds=timeout_seconds,
    )

    assert decode(encode(trigger), ToExecutor) == trigger


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    try:
        message = decode(body, ToExecutor | ToScheduler)
    except Malformed:
        return

    assert isinstance(message, Message)


@given(st.integers(max_value=-1) | st.integers(min_value=NUMBER_LIMIT + 1))
def test_any_number_out_of_bounds_is_malformed(number: int) -> None:
    with pytest.raises(Malformed):
        decode(b'{"type":"Kill","run_id":%d,"reason":""}' % number, Kill)


Fields = tuple[str, str, str, str, str, str, bytes]
DIGITS = st.text("0123456789", min_size=1, max_size=8)
BODIES = st.binary(min_size=1, max_size=50)
FIELDS = st.tuples(TEXTS, TEXTS, TEXTS, DIGITS, TEXTS, TEXTS, BODIES)


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Fields, Fields]:
    """Two lists of fields of the same bytes: something has moved from one field into the next."""
    texts = draw(st.lists(DIGITS, min_size=7, max_size=7))
    moved = list(texts)
    at = draw(st.integers(min_value=0, max_value=5))
    both = texts[at] + texts[at + 1]
    cut = draw(st.integers(min_value=1, max_value=len(both) - 1))
    moved[at], moved[at + 1] = both[:cut], both[cut:]
    return fields_of(texts), fields_of(moved)


def fields_of(texts: list[str]) -> Fields:
    kind, cluster, routing_key, expiry, app, address, body = texts
    return kind, cluster, routing_key, expiry, app, address, body.encode()


@given(st.tuples(FIELDS, FIELDS) | neighbours() | FIELDS.map(lambda fields: (fields, fields)))
def test_signature_of_one_list_of_fields_proves_no_other(pair: tuple[Fields, Fields]) -> None:
    signed, (kind, cluster, routing_key, expiry, app, address, body) = pair
    headers = {"v": VERSION, "type": kind, "cluster": cluster, "expiry": expiry}
    headers |= {"app": app, "address": address, "mac": sign(signed)}
    delivery = Delivery(
        queue="q", routing_key=routing_key, body=body, headers=headers, redelivered=False, tag=None
    )

    with pytest.raises(BadMessage) as refused:
        Sealer(ClusterKeys(SECRET), "c1", lambda: 0).open(
            delivery, expect=ToExecutor, direction=Direction.TO_EXECUTOR
        )

    is_proven = "wrong signature" not in str(refused.value)
    assert is_proven == (pair[0] == pair[1])


def sign(fields: Fields) -> str:
    kind, cluster, routing_key, expiry, app, address, body = fields
    headers = {"type": kind, "cluster": cluster, "expiry": expiry, "app": app, "address": address}
    return signature(headers, Direction.TO_EXECUTOR, routing_key, body, secret=SECRET)


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_any_flipped_byte_of_a_body_is_forgery(position: int, flip: int) -> None:
    sealer = Sealer(ClusterKeys("s" * 32), "c1", lambda: 0)
    outgoing = sealer.seal(
        Kill(run_id=1, reason="user"),
        exchange="e",
        routing_key="k",
        app="app1",
        address="a",
        direction=Direction.TO_EXECUTOR,
        valid_seconds=1,
    )
    body = bytearray(outgoing.body)
    body[position % len(body)] ^= flip
    delivery = Delivery(
        queue="q",
        routing_key="k",
        body=bytes(body),
        headers=outgoing.headers,
        redelivered=False,
        tag=None,
    )

    with pytest.raises(Forged):
        sealer.open(delivery, expect=ToExecutor, direction=Direction.TO_EXECUTOR, address="a")


@given(st.dictionaries(st.text(max_size=10), TEXTS, max_size=8), st.binary(max_size=50))
def test_any_headers_of_a_stranger_are_refused_in_an_orderly_way(
    headers: dict[str, str], body: bytes
) -> None:
    known = {"v": VERSION, "type": "Kill", "cluster": "c1", "expiry": "9", "mac": "m"}
    known |= {"app": "app1", "address": "a"}
    delivery = Delivery(
        queue="q", routing_key="k", body=body, headers=known | headers, redelivered=False, tag=None
    )

    with pytest.raises(BadMessage):
        Sealer(ClusterKeys("s" * 32), "c1", lambda: 0).open(
            delivery, expect=ToExecutor, direction=Direction.TO_EXECUTOR
        )


class Storm:
    """Everything that can befall messages on the way from one publisher to some consumers."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.broker = MemoryBroker()
        transport = self.broker.transport()
        self.admin = transport.admin("a")
        self.admin.declare_exchanges()
        self.admin.declare_queues([RUN])
        self._transport = transport
        self._publisher: Publisher = transport.publisher("p")
        self._consumers = [self._consumer() for _ in range(3)]
        self._held: list[tuple[Consumer, int, Delivery]] = []
        self._number = 0
        self.confirmed: set[bytes] = set()
        self.settled: list[bytes] = []

    def blow(self) -> None:
        """Do one thing at random."""
        deeds = [self._publish] * 4 + [self._take] * 4 + [self._settle] * 3
        self._random.choice([*deeds, self._replace_consumer, self._restart, self._block])()

    def calm(self) -> None:
        """Take and settle all that is left."""
        self.broker.start()
        self.broker.unblock()
        for consumer in self._consumers:
            consumer.close()
        last = self._consumer()
        while deliveries := last.take(100, 0):
            self.settled += [delivery.body for delivery in deliveries]
            last.ack(deliveries)

    def _consumer(self) -> Consumer:
        return self._transport.consumer("c", [RUN.name], prefetch=self._random.randint(1, 5))

    def _publish(self) -> None:
        self._number += 1
        body = str(self._number).encode()
        message = Outgoing(exchange=RUN.exchange, routing_key=RUN.name, body=body, headers={})
        if self._publisher.publish([message]).wait(0) == [Confirm.CONFIRMED]:
            self.confirmed.add(body)

    def _take(self) -> None:
        consumer = self._random.choice(self._consumers)
        generation = consumer.generation
        self._held += [(consumer, generation, delivery) for delivery in consumer.take(3, 0)]

    def _settle(self) -> None:
        if not self._held:
            return
        consumer, generation, delivery = self._held.pop(self._random.randrange(len(self._held)))
        settle = self._random.choice([consumer.ack, consumer.reject])
        settle([delivery])
        # The connection that brought it has to be there still; after that it comes again.
        if consumer in self._consumers and consumer.generation == generation:
            self.settled.append(delivery.body)

    def _replace_consumer(self) -> None:
        self._consumers.pop(self._random.randrange(3)).close()
        self._consumers.append(self._consumer())

    def _restart(self) -> None:
        self.broker.stop()
        self._publish()
        self.broker.start()

    def _block(self) -> None:
        self.broker.block()
        self._publish()
        self.broker.unblock()


@settings(max_examples=200)
@given(st.integers(min_value=0, max_value=2**32))
def test_whatever_happens_each_confirmed_message_is_settled_exactly_once(seed: int) -> None:
    storm = Storm(seed)

    for _ in range(150):
        storm.blow()
    storm.calm()

    assert sorted(storm.settled) == sorted(storm.confirmed)
