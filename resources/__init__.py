"""What Warren shows and does, described once: each resource, each input and each operation.

The API, both clients, the command line and the console read it here. It needs the standard library
and msgspec only.
"""
