"""Reasons: a code with its English sentence, and the facts of one case."""
