"""Dramatiq over RabbitMQ, with results in Redis; as a program, the sender."""

import os

import dramatiq
import sending
import work
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from redis import Redis

REDIS_URL = os.environ["BENCH_REDIS_URL"]

broker = RabbitmqBroker(url=os.environ["BENCH_BROKER_URL"])
broker.add_middleware(Results(backend=RedisBackend(url=REDIS_URL)))
dramatiq.set_broker(broker)
noop = dramatiq.actor(work.noop, actor_name="noop", store_results=True)


if __name__ == "__main__":
    sending.run(noop.send, Redis.from_url(REDIS_URL).dbsize)
