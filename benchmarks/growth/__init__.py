"""Whether a run costs the same however much is stored and whoever takes part.

Each axis is measured at two points or more, in turn and with the same load: the processor's
microseconds a run by process, the rows that the database read for it, and runs a second.
"""
