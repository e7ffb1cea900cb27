"""The ceiling: the same path with nothing but pika and pymysql, and none of Warren's promises.

    rows ─> claim, publish ─> [RabbitMQ] ─> consume, 1 of 8 pipes, publish ─> [RabbitMQ] ─> update

Three processes beside the 8 workers: one claims the rows and publishes them, one hands them to
live workers and publishes their answers, one updates the rows. As fast as we know to write it:
rows are inserted, claimed and updated by the batch, messages are durable, confirmed and
acknowledged by the batch. It carries one run in a message, or as many as Warren does.
"""
