"""`make soak`: a working cluster under faults, judged by a record of starts kept outside of it."""
