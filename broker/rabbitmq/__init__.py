"""The broker over AMQP, by pika: the only place that imports it."""
