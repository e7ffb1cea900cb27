"""Several threads may be the first to decode a type."""

import subprocess
import sys

import pytest

#: While one thread prepares `Outer`, another decodes it, or waits until that is done.
PROGRAM = """
from argparse import Namespace
from threading import Thread
import msgspec
from warren.broker.codec import decode
from warren.client.exchange import Response
from warren.resources.runs import Run

def meanwhile():
    if not others:
        others.append(Thread(target=first_decode))
        others[0].start()
        others[0].join(0.2)
    return int

class Inner(msgspec.Struct):
    number: "meanwhile()"

class Outer(msgspec.Struct):
    inner: Inner

def first_decode():
    decoded.append({expression})

others, decoded = [], []
first_decode()
others[0].join()
assert decoded == [Outer(inner=Inner(number=3))] * 2
"""


@pytest.mark.parametrize(
    "expression",
    [
        """decode(b'{"inner": {"number": 3}}', Outer)""",
        """Response(200, {}, b'{"inner": {"number": 3}}').value(Outer)""",
        """Run.result_as(Namespace(result={"inner": {"number": 3}}), Outer)""",
    ],
)
def test_a_thread_waits_until_another_has_prepared_a_type(expression: str) -> None:
    program = PROGRAM.replace("{expression}", expression)

    subprocess.run([sys.executable, "-c", program], check=True)
