"""What Warren does in a second, measured on services of its own: `make bench`.

It borrows the private RabbitMQ and MariaDB of the tests: neither is part of the wheel.
"""
