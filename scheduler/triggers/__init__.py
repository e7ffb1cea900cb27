"""The messages that carry triggers: built from rows, packed, published. The way of every run."""
