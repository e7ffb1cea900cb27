import pytest

from warren.broker import topology
from warren.broker.rabbitmq.admin import arguments_of, for_one_reader
from warren.broker.transport import Queue

LONG_ADDRESS = "a" * 128


def test_run_queue_outlives_boots_and_keeps_what_was_rejected() -> None:
    queue = topology.run_queue("app1", "host-1")

    assert queue.name == "warren.run.app1.host-1"
    assert (queue.exchange, queue.routing_keys) == ("warren.trigger", (queue.name,))
    assert arguments_of(queue) == {"x-dead-letter-exchange": "warren.dlx"}
    assert not queue.exclusive


def test_quorum_queue_says_its_delivery_limit_and_dead_letters_outright() -> None:
    expected = {
        "x-dead-letter-exchange": "warren.dlx",
        "x-queue-type": "quorum",
        "x-delivery-limit": 200,
    }

    assert arguments_of(topology.run_queue("app1", "host-1", quorum=True)) == expected
    assert arguments_of(topology.callback_queue(quorum=True)) == expected


def test_command_queue_goes_ten_minutes_after_its_boot() -> None:
    queue = topology.command_queue("app1", "host-1", "b1")

    assert queue.name == "warren.cmd.app1.host-1.b1"
    assert arguments_of(queue) == {"x-expires": 600_000, "x-message-ttl": 60_000}


def test_heartbeats_and_answers_have_a_queue_for_each_node() -> None:
    beats, answers = topology.heartbeat_queue("n1"), topology.answer_queue("n1")

    assert (beats.exclusive, answers.exclusive) == (True, True)
    assert beats.routing_keys == ("heartbeat",)
    assert answers.routing_keys == ("answer.n1",)
    assert arguments_of(for_one_reader(beats, "3.10.8")) == {"x-message-ttl": 10_000}


@pytest.mark.parametrize(
    ("quorum", "version", "is_quorum"),
    [
        (False, "3.10.8", False),
        (False, "4.3.6", False),
        (True, "3.10.8", False),
        (True, "", False),  # a broker that does not say
        (True, "4.1.10", False),
        (True, "4.2.0-rc.1", True),
        (True, "10.0.0", True),
    ],
)
def test_they_are_quorum_queues_where_a_cluster_keeps_exclusive_ones_of_a_dead_node(
    quorum: bool, version: str, is_quorum: bool
) -> None:
    for queue in (
        topology.heartbeat_queue("n1", quorum=quorum),
        topology.answer_queue("n1", quorum=quorum),
    ):
        declared = for_one_reader(queue, version)

        assert declared.exclusive is not is_quorum
        assert arguments_of(declared).get("x-queue-type") == ("quorum" if is_quorum else None)
        assert arguments_of(declared).get("x-expires") == (60_000 if is_quorum else None)


def test_dead_queue_is_bounded() -> None:
    assert arguments_of(topology.DEAD_QUEUE) == {
        "x-max-length": 10_000,
        "x-max-length-bytes": 64_000_000,
    }


def test_every_queue_hangs_on_a_declared_exchange() -> None:
    queues: list[Queue] = [
        topology.DEAD_QUEUE,
        topology.run_queue("app1", "h"),
        topology.command_queue("app1", "h", "b"),
        topology.callback_queue(),
        topology.heartbeat_queue("n"),
        topology.answer_queue("n"),
    ]

    found = {queue.exchange for queue in queues} | {queue.asked_through for queue in queues}
    assert found - {""} == set(topology.EXCHANGES)


def test_only_commands_can_be_reached_by_who_may_only_ask() -> None:
    assert topology.command_queue("app1", "h", "b").asked_through == topology.ASK_EXCHANGE
    assert topology.run_queue("app1", "h").asked_through == ""


def test_longest_names_still_fit_into_a_queue_name() -> None:
    assert len(topology.command_queue("a" * 64, LONG_ADDRESS, "b" * 40).name) <= 255


@pytest.mark.parametrize("address", ["h", "0", "host-1", "A.b:80_c", "10.0.0.1:9999", LONG_ADDRESS])
def test_address_in_the_agreed_form_is_taken(address: str) -> None:
    assert topology.check_address(address) == address


@pytest.mark.parametrize(
    "address", ["", "-a", ".", "..", "a/b", "a b", "#", "*", "a\n", "ä", "a" * 129, "a\0", ":1"]
)
def test_address_in_any_other_form_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"expected address to be .*, got: ") as caught:
        topology.run_queue("app1", address)

    assert repr(address) in str(caught.value)


@pytest.mark.parametrize("app", ["app", "a1-", "a" * 64])
def test_app_in_the_agreed_form_is_taken(app: str) -> None:
    assert topology.check_app(app) == app


@pytest.mark.parametrize(
    "app", ["", "ap", "App", "1app", "-app", "app.x", "app_x", "a" * 65, "app\n", "\u0430pp"]
)
def test_app_in_any_other_form_is_refused(app: str) -> None:
    with pytest.raises(ValueError, match="expected app to be "):
        topology.command_queue(app, "host-1", "b1")


@pytest.mark.parametrize("boot_id", ["", "b.1", "b" * 41, "b\n", "#"])
def test_boot_id_in_any_other_form_is_refused(boot_id: str) -> None:
    with pytest.raises(ValueError, match="expected boot id to be "):
        topology.command_queue("app1", "host-1", boot_id)


def test_absurdly_long_name_is_not_repeated_whole() -> None:
    with pytest.raises(ValueError, match="expected address") as caught:
        topology.check_address("a" * 100_000)

    assert len(str(caught.value)) < 400
