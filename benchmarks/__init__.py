"""Measures what Warren does per second, on its own services: `make bench`.

It uses the tests' private RabbitMQ and MariaDB: neither is part of the wheel.
"""
