"""Measures whether a run's cost depends on how much is stored and who takes part.

Each axis is measured at two points or more, in turn and with the same load: processor microseconds
per run by process, rows read by the database per run, and runs per second.
"""
