"""The ceiling: the same path with only pika and pymysql, and none of Warren's promises.

    rows ─> claim, publish ─> [RabbitMQ] ─> consume, 1 of 8 pipes, publish ─> [RabbitMQ] ─> update

Three processes beside the 8 workers: one claims the rows and publishes them, one hands them to live
workers and publishes their answers, one updates the rows. It is as fast as we know how to make it:
rows are inserted, claimed and updated in batches; messages are durable, and confirmed and
acknowledged in batches. A message carries one run, or as many as Warren's.
"""
