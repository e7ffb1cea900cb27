"""Errands: what short commands do, on this installation's database or by an API.

A command reads its options, sends an errand, and prints its output. The errand itself is a function
that runs where the database is: in this process, or in the API's. So both print the same, and a
command by an API needs no more than the base installation.
"""
