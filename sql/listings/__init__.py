"""Lists and searches for people, each along an index."""
