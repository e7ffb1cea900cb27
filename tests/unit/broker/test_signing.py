"""Keys follow from one another by HKDF, whoever computes it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.support.bad_messages import BAD_BODIES
from tests.support.signatures import signature
from warren.broker.codec import HEADER_LIMIT, encode
from warren.broker.errors import BadMessage, Expired, Foreign, Forged, Malformed, Oversized
from warren.broker.messages import (
    Beat,
    Canary,
    Goodbye,
    Heartbeat,
    Kill,
    Load,
    Message,
    ToExecutor,
    ToScheduler,
    Trigger,
    Welcome,
)
from warren.broker.signing import (
    NO_APP,
    AppKeys,
    ClusterKeys,
    Direction,
    Sealer,
    app_key,
    app_of,
    cluster_of,
    derived_key,
)
from warren.broker.transport import Delivery, Outgoing

SECRET = "s" * 32
NOW = 1_800_000_000_000
KILL = Kill(run_id=1, reason="user")
HEARTBEAT = Heartbeat(app="app1", address="a", boot_id="b1", started_at_ms=1, load=Load())


def sealer(cluster: str | None = "c1", *, secret: str = SECRET, now: int = NOW) -> Sealer:
    return Sealer(ClusterKeys(secret), cluster, lambda: now)


def sealed(
    message: Message = KILL,
    by: Sealer | None = None,
    *,
    app: str = "app1",
    address: str = "a",
    direction: Direction = Direction.TO_EXECUTOR,
) -> Delivery:
    outgoing = (by or sealer()).seal(
        message,
        exchange="e",
        routing_key="warren.cmd.a",
        app=app,
        address=address,
        direction=direction,
        valid_seconds=60,
    )
    return arrived(outgoing)


def arrived(outgoing: Outgoing) -> Delivery:
    return Delivery(
        queue="q",
        routing_key=outgoing.routing_key,
        body=outgoing.body,
        headers=outgoing.headers,
        redelivered=False,
        tag=None,
    )


def open_it(
    delivery: Delivery,
    by: Sealer | None = None,
    *,
    expect: Any = ToExecutor,
    direction: Direction = Direction.TO_EXECUTOR,
    address: str | None = "a",
) -> Any:
    return (by or sealer()).open(delivery, expect=expect, direction=direction, address=address)


def with_header(name: str, value: Any) -> Delivery:
    delivery = sealed()
    return replace(delivery, headers={**delivery.headers, name: value})


def without_header(name: str) -> Delivery:
    delivery = sealed()
    return replace(delivery, headers={k: v for k, v in delivery.headers.items() if k != name})


def signed_anew(delivery: Delivery) -> Delivery:
    """Return a delivery with the right signature for what it is now."""
    right = signature(
        delivery.headers,
        Direction.TO_EXECUTOR,
        delivery.routing_key,
        delivery.body,
        secret=SECRET,
    )
    return replace(delivery, headers={**delivery.headers, "mac": right})


def test_sealed_message_opens() -> None:
    assert open_it(sealed()) == KILL


def test_signature_is_the_one_that_the_format_says() -> None:
    assert sealed() == signed_anew(sealed())


def test_headers_over_their_limit_are_oversized_whoever_signed_the_message() -> None:
    assert open_it(replace(sealed(), header_bytes=HEADER_LIMIT)) == KILL

    for delivery in (sealed(), without_header("mac"), without_header("v")):
        with pytest.raises(Oversized, match="expected headers to be up to 8000 bytes, got: 8001"):
            open_it(replace(delivery, header_bytes=HEADER_LIMIT + 1))


def test_our_headers_are_far_below_their_limit() -> None:
    long = sealed(Kill(run_id=1, reason=""), sealer("c" * 36), app="a" * 64, address="h" * 128)

    size = sum(len(text) for pair in long.headers.items() for text in pair)
    assert size < 1_000 < HEADER_LIMIT


def test_seal_keeps_what_the_transport_must_know() -> None:
    outgoing = sealer().seal(
        KILL,
        exchange="e",
        routing_key="k",
        app="app1",
        address="a",
        direction=Direction.TO_EXECUTOR,
        valid_seconds=1,
        durable=False,
        ttl_seconds=2.5,
    )

    assert (outgoing.exchange, outgoing.routing_key) == ("e", "k")
    assert (outgoing.durable, outgoing.ttl_seconds) == (False, 2.5)
    assert all(isinstance(value, str) for value in outgoing.headers.values())


def test_headers_added_on_the_way_do_no_harm() -> None:
    assert open_it(with_header("x-first-death-queue", "warren.callback")) == KILL


@pytest.mark.parametrize("name", ["v", "type", "cluster", "expiry", "app", "address", "mac"])
def test_missing_header_is_malformed(name: str) -> None:
    with pytest.raises(Malformed, match=name):
        open_it(without_header(name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("v", "1"),
        ("v", "3"),
        ("v", ""),
        ("v", 1),
        ("expiry", "-1"),
        ("expiry", "1e20"),
        ("expiry", "9" * 5_000),
        ("expiry", "٣"),
        ("expiry", ""),
        ("type", None),
        ("mac", b"bytes"),
        ("address", ["a"]),
    ],
)
def test_header_of_a_wrong_form_is_malformed(name: str, value: Any) -> None:
    with pytest.raises(Malformed, match="expected"):
        open_it(with_header(name, value))


@pytest.mark.parametrize(
    "forge",
    [
        lambda: with_header("type", "Trigger"),
        lambda: with_header("cluster", "c2"),
        lambda: with_header("cluster", ""),
        lambda: with_header("expiry", str(NOW + 3_600_000)),
        lambda: with_header("app", "app2"),
        lambda: with_header("app", ""),
        lambda: with_header("app", "\ud800"),
        lambda: with_header("address", "b"),
        lambda: with_header("address", "\ud800"),
        lambda: with_header("mac", ""),
        lambda: with_header("mac", "\ud800"),
        lambda: with_header("mac", "0" * 64),
        lambda: with_header("mac", sealed().headers["mac"].upper()),
        lambda: replace(sealed(), body=encode(Kill(run_id=2, reason="user"))),
        lambda: replace(sealed(), body=sealed().body + b" "),
        lambda: replace(sealed(), routing_key="warren.cmd.b"),
        lambda: sealed(by=sealer(secret="t" * 32)),
        lambda: sealed(direction=Direction.FROM_EXECUTOR),
    ],
)
@pytest.mark.parametrize("address", ["a", None])
def test_forged_message_is_not_opened(forge: Callable[[], Delivery], address: str | None) -> None:
    with pytest.raises(Forged):
        open_it(forge(), address=address)


def test_message_to_one_executor_is_none_to_another() -> None:
    with pytest.raises(Forged, match="expected address"):
        open_it(sealed(address="a"), address="b")


def test_fields_cannot_be_shifted_into_each_other() -> None:
    delivery = sealed()
    shifted = replace(
        delivery,
        routing_key=delivery.headers["cluster"][-1] + delivery.routing_key,
        headers={**delivery.headers, "cluster": delivery.headers["cluster"][:-1]},
    )

    with pytest.raises(Forged):
        open_it(shifted)


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_body_is_refused_although_rightly_signed(name: str) -> None:
    delivery = signed_anew(replace(sealed(), body=BAD_BODIES[name]))

    with pytest.raises(Malformed):
        open_it(delivery, expect=ToExecutor | ToScheduler)


@pytest.mark.parametrize("name", BAD_BODIES)
def test_bad_body_is_refused_unsigned(name: str) -> None:
    with pytest.raises(BadMessage):
        open_it(replace(sealed(), body=BAD_BODIES[name]))


def test_type_that_is_signed_for_another_body_is_malformed() -> None:
    delivery = signed_anew(with_header("type", "Trigger"))

    with pytest.raises(Malformed, match="expected type to be Trigger"):
        open_it(delivery)


def test_message_that_is_not_expected_here_is_malformed() -> None:
    with pytest.raises(Malformed):
        open_it(sealed(), expect=Trigger)


def test_message_of_another_cluster_is_foreign() -> None:
    with pytest.raises(Foreign, match="c2"):
        open_it(sealed(by=sealer("c2")))


def test_executor_without_a_cluster_opens_what_is_rightly_signed_and_can_pin_it() -> None:
    executor = sealer(None)
    welcome = sealed(Welcome(boot_id="b1", now_ms=NOW))
    assert open_it(welcome, by=executor) == Welcome(boot_id="b1", now_ms=NOW)

    executor.pin(cluster_of(welcome))

    assert executor.cluster == "c1"
    with pytest.raises(Foreign):
        open_it(sealed(by=sealer("c2")), by=executor)


def test_only_a_heartbeat_may_come_without_a_cluster() -> None:
    executor = sealer("")
    direction = Direction.FROM_EXECUTOR
    beat = sealed(HEARTBEAT, by=executor, direction=direction)
    goodbye = sealed(
        Goodbye(app="app1", address="a", boot_id="b1"), by=executor, direction=direction
    )

    assert open_it(beat, expect=ToScheduler, direction=direction, address=None) == HEARTBEAT
    with pytest.raises(Foreign):
        open_it(goodbye, expect=ToScheduler, direction=direction, address=None)


def test_executor_with_a_cluster_refuses_what_has_none() -> None:
    with pytest.raises(Foreign):
        open_it(sealed(by=sealer(None)))


def test_message_is_good_up_to_its_expiry_and_not_after() -> None:
    delivery = sealed(Beat(question_id="q", reply_to="r"))

    assert open_it(delivery, by=sealer(now=NOW + 60_000)).question_id == "q"
    with pytest.raises(Expired, match="1 ms") as caught:
        open_it(delivery, by=sealer(now=NOW + 60_001))
    assert caught.value.message == Beat(question_id="q", reply_to="r")


def test_forged_message_is_forged_even_when_it_is_late() -> None:
    delivery = replace(sealed(), body=b"{}")

    with pytest.raises(Forged):
        open_it(delivery, by=sealer(now=NOW + 3_600_000))


def test_executor_cannot_speak_in_the_name_of_another() -> None:
    direction = Direction.FROM_EXECUTOR
    delivery = sealed(HEARTBEAT, address="b", direction=direction)

    with pytest.raises(Forged, match="sender"):
        open_it(delivery, expect=ToScheduler, direction=direction, address=None)


def test_canary_is_signed_by_its_own_node() -> None:
    direction = Direction.FROM_EXECUTOR
    canary = Canary(node="n1", number=4)

    own = sealed(canary, app=NO_APP, address="n1", direction=direction)
    other = sealed(canary, app=NO_APP, address="n2", direction=direction)
    of_an_app = sealed(canary, address="n1", direction=direction)

    assert open_it(own, expect=ToScheduler, direction=direction, address=None) == canary
    for forged in (other, of_an_app):
        with pytest.raises(Forged, match="sender"):
            open_it(forged, expect=ToScheduler, direction=direction, address=None)


def test_errors_never_hold_the_secret() -> None:
    delivery = sealed(by=sealer(secret="t" * 32))

    with pytest.raises(Forged) as caught:
        open_it(delivery)

    assert SECRET not in str(caught.value)
    assert signed_anew(delivery).headers["mac"] not in str(caught.value)


def test_keys_of_more_executors_than_are_kept_are_derived_again() -> None:
    class CountedKeys(ClusterKeys):
        derived = 0

        def of(self, app: str) -> tuple[bytes, ...]:
            self.derived += 1
            return super().of(app)

    keys = CountedKeys(SECRET)
    by = Sealer(keys, "c1", lambda: NOW)

    deliveries = [sealed(by=by, address=f"a{number}") for number in range(5_000)]

    assert all(
        open_it(delivery, by=by, address=f"a{number}") == KILL
        for number, delivery in reversed(list(enumerate(deliveries)))
    )
    assert keys.derived == 5_000 + (5_000 - 4_096)


class TestKeysOfApps:
    """What an executor of one app can sign and open, and what it cannot."""

    def one_app(self, app: str = "app1", *, key: str = "", previous: str = "") -> Sealer:
        keys = AppKeys(app, key or app_key(SECRET, app), previous or None)
        return Sealer(keys, "c1", lambda: NOW)

    def test_an_executor_with_its_apps_key_and_a_scheduler_understand_each_other(self) -> None:
        direction = Direction.FROM_EXECUTOR
        beat = sealed(HEARTBEAT, by=self.one_app(), direction=direction)

        assert open_it(beat, expect=Heartbeat, direction=direction) == HEARTBEAT
        assert app_of(beat) == "app1"
        assert open_it(sealed(), by=self.one_app()) == KILL

    def test_it_can_neither_speak_for_another_app_nor_hear_what_is_said_to_it(self) -> None:
        executor = self.one_app("app2")

        with pytest.raises(ValueError, match="app1"):
            sealed(HEARTBEAT, by=executor)
        with pytest.raises(Forged):
            open_it(sealed(), by=executor)

    @pytest.mark.parametrize("claimed", ["app1", "", "scheduler"])
    def test_what_it_signs_with_its_own_key_is_good_for_no_other_app(self, claimed: str) -> None:
        direction = Direction.FROM_EXECUTOR
        liar = self.one_app(key=app_key(SECRET, "app2"))
        beat = sealed(HEARTBEAT, by=liar, direction=direction)
        beat = replace(beat, headers={**beat.headers, "app": claimed})

        with pytest.raises(Forged):
            open_it(beat, expect=Heartbeat, direction=direction)

    def test_a_heartbeat_for_another_app_is_forged_although_it_is_rightly_signed(self) -> None:
        direction = Direction.FROM_EXECUTOR
        beat = sealed(HEARTBEAT, by=self.one_app("app2"), app="app2", direction=direction)

        with pytest.raises(Forged, match="app1/a"):
            open_it(beat, expect=Heartbeat, direction=direction)

    def test_a_message_of_the_wrong_app_is_refused_where_one_is_asked_for(self) -> None:
        with pytest.raises(Forged, match="expected app to be app2"):
            sealer().open(sealed(), expect=ToExecutor, direction=Direction.TO_EXECUTOR, app="app2")

    def test_the_key_of_an_app_is_no_key_of_schedulers_to_themselves(self) -> None:
        direction = Direction.FROM_EXECUTOR
        canary = Canary(node="n1", number=1)
        with pytest.raises(ValueError, match="held here"):
            sealed(canary, by=self.one_app(), app=NO_APP, address="n1", direction=direction)

    def test_each_app_has_a_key_of_its_own_that_tells_nothing_of_the_secret(self) -> None:
        keys = {app_key(SECRET, f"app-{number}") for number in range(50)}
        others = {app_key("t" * 32, f"app-{number}") for number in range(50)}

        assert len(keys | others) == 100
        assert all(len(key) == 64 and SECRET not in key for key in keys)
        assert app_key(SECRET, "app-1") == app_key(SECRET, "app-1")

    def test_what_is_no_apps_name_has_no_key(self) -> None:
        with pytest.raises(ValueError, match="expected app to be"):
            app_key(SECRET, "")


class TestTwoKeys:
    """While keys are changed, whoever has two signs with both and opens either."""

    OLD, NEW = "o" * 32, "n" * 32

    def scheduler(self, *secrets: str) -> Sealer:
        return Sealer(ClusterKeys(*secrets), "c1", lambda: NOW)

    def executor(self, *secrets: str) -> Sealer:
        keys = AppKeys("app1", *[app_key(secret, "app1") for secret in secrets])
        return Sealer(keys, "c1", lambda: NOW)

    def understand(self, one: Sealer, other: Sealer) -> bool:
        direction = Direction.FROM_EXECUTOR
        try:
            open_it(sealed(by=one), by=other)
            beat = sealed(HEARTBEAT, by=other, direction=direction)
            open_it(beat, by=one, expect=Heartbeat, direction=direction)
        except Forged:
            return False
        return True

    def test_every_step_of_a_change_leaves_all_able_to_talk(self) -> None:
        old, both, new = (self.OLD,), (self.NEW, self.OLD), (self.NEW,)
        steps = [(old, old), (both, old), (both, both), (both, new), (new, new), (old, both)]

        assert all(
            self.understand(self.scheduler(*ours), self.executor(*theirs)) for ours, theirs in steps
        )

    def test_a_key_that_was_given_up_opens_nothing(self) -> None:
        assert not self.understand(self.scheduler(self.NEW), self.executor(self.OLD))
        assert not self.understand(self.scheduler(self.OLD), self.executor(self.NEW))

    def test_no_more_signatures_are_looked_at_than_there_may_be(self) -> None:
        delivery = sealed()
        right = delivery.headers["mac"]
        third = {**delivery.headers, "mac": f"{'0' * 64},{'1' * 64},{right}"}

        with pytest.raises(Forged):
            open_it(replace(delivery, headers=third))
        second = {**delivery.headers, "mac": f"{'0' * 64},{right}"}
        assert open_it(replace(delivery, headers=second)) == KILL

    def test_executors_that_are_given_two_master_secrets_have_two_keys(self) -> None:
        given = AppKeys.derived("app1", self.NEW, self.OLD)

        assert given.of("app1") == ClusterKeys(self.NEW, self.OLD).of("app1")
        assert given.of("app2") == ()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1", r"got: '1' \(an older Warren with another signature scheme: upgrade that process\)"),
        ("3", r"got: '3' \(a newer Warren: upgrade this process\)"),
        ("10", r"got: '10' \(a newer Warren: upgrade this process\)"),
        ("x", "got: 'x'$"),
    ],
)
def test_another_version_is_named_so_that_people_know_what_to_do(version: str, words: str) -> None:
    delivery = sealed()
    headers = {k: v for k, v in delivery.headers.items() if k != "app"} | {"v": version}

    with pytest.raises(Malformed, match=words):
        open_it(replace(delivery, headers=headers))


@pytest.mark.parametrize(
    ("key", "info"), [(b"x" * 32, "app/demo"), (b"k", ""), (b"y" * 200, "é" * 300)]
)
def test_key_is_what_another_hkdf_makes_of_it(key: bytes, info: str) -> None:
    other = HKDF(algorithm=SHA256(), length=32, salt=b"warren", info=info.encode())

    assert derived_key(key, info) == other.derive(key)
