"""The messages between scheduler and executor: frozen values, nothing else.

Times are epoch milliseconds (`*_ms`) because these values are the wire format. Every message about
a run names the run's id and the boot of its executor.

Bounds on numbers and names are checked when a message is decoded, not when it is made.

A `why` is the reason behind an English text, as JSON (`warren.broker.reasons`); "" if there is only
the text. Receivers that do not know the reason show the text.
"""
