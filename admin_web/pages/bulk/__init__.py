"""The pages that act on many runs or jobs at once: ask, begin, show how far it is."""
