"""Invalid message bodies, by what is wrong with them; each is a spoiled `Kill`."""

import sys

_START = b'{"type":"Kill","run_id":1,"reason":"'

#: Malformed up to Python 3.13; later ones skip what is unknown as deep as their stack allows.
DEEP_BODIES: dict[str, bytes] = {
    "arrays nested 400,000 deep in an unknown field": (
        b'{"type":"Kill","run_id":1,"reason":"","x":' + b"[" * 400_000 + b"]" * 400_000 + b"}"
    ),
    "objects nested 160,000 deep in an unknown field": (
        b'{"type":"Kill","run_id":1,"reason":"","x":' + b'{"a":' * 160_000 + b"1" + b"}" * 160_001
    ),
}
BAD_BODIES: dict[str, bytes] = {
    "empty": b"",
    "one space": b" ",
    "over the limit": _START + b"x" * 1_000_000 + b'"}',
    "3 MB": _START + b"x" * 3_000_000 + b'"}',
    "bad UTF-8": _START + b'\xff\xfe"}',
    "half a UTF-8 character": _START + b'\xc3"}',
    "UTF-16": '{"type":"Kill"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"type":"Kill","run_id":1,"reason":""}',
    "lone surrogate": _START + b'\\ud800"}',
    "arrays nested 10,000 deep": b"[" * 10_000 + b"]" * 10_000,
    "never closed": b'{"a":' * 10_000,
    "cut short": b'{"type":"Kill","run_id":1,"rea',
    "followed by more": b'{"type":"Kill","run_id":1,"reason":""} {}',
    "null": b"null",
    "a number": b"1",
    "a text": b'"Kill"',
    "a list": b'["Kill",1,""]',
    "no type": b'{"run_id":1,"reason":""}',
    "unknown type": b'{"type":"Bomb","run_id":1,"reason":""}',
    "type is a number": b'{"type":1,"run_id":1,"reason":""}',
    "two types": b'{"type":"Kill","type":"Trigger","run_id":1,"reason":""}',
    "field missing": b'{"type":"Kill","reason":""}',
    "text for a number": b'{"type":"Kill","run_id":"1","reason":""}',
    "number for a text": b'{"type":"Kill","run_id":1,"reason":2}',
    "true for a number": b'{"type":"Kill","run_id":true,"reason":""}',
    "fraction for a whole number": b'{"type":"Kill","run_id":1.5,"reason":""}',
    "null for a number": b'{"type":"Kill","run_id":null,"reason":""}',
    "NaN": b'{"type":"Kill","run_id":NaN,"reason":""}',
    "infinity": b'{"type":"Kill","run_id":1e999,"reason":""}',
    "minus one": b'{"type":"Kill","run_id":-1,"reason":""}',
    "2 to the 53rd": b'{"type":"Kill","run_id":9007199254740992,"reason":""}',
    "100,000 digits": b'{"type":"Kill","run_id":' + b"9" * 100_000 + b',"reason":""}',
    "single quotes": b"{'type':'Kill','run_id':1,'reason':''}",
    "a comment": b'{"type":"Kill","run_id":1,"reason":""}//',
    "a pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xabV*\xa9,HU",
    "YAML": b"!!python/object/apply:os.system ['true']",
    "NUL bytes": b"\0" * 100,
    "app that is a path": (b'{"type":"Goodbye","app":"../../x","address":"h","boot_id":"b"}'),
    "app with a line break": b'{"type":"Goodbye","app":"app1\\n","address":"h","boot_id":"b"}',
    "address with a wildcard": b'{"type":"Goodbye","app":"app1","address":"#","boot_id":"b"}',
    "address of 129 characters": (
        b'{"type":"Goodbye","app":"app1","address":"' + b"a" * 129 + b'","boot_id":"b"}'
    ),
    "boot id of 41 characters": (
        b'{"type":"Goodbye","app":"app1","address":"h","boot_id":"' + b"b" * 41 + b'"}'
    ),
    "report of unknown type": (
        b'{"type":"Callback","app":"app1","address":"h","boot_id":"b",'
        b'"reports":[{"type":"Exploded","run_id":1}]}'
    ),
    "unknown outcome": (
        b'{"type":"Callback","app":"app1","address":"h","boot_id":"b","reports":[{"type":'
        b'"Finished","run_id":1,"boot_id":"b","outcome":"FINE","finished_at_ms":1}]}'
    ),
}
if sys.version_info < (3, 14):
    BAD_BODIES |= DEEP_BODIES
