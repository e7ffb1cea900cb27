"""The broker over AMQP; the only place that imports pika."""
