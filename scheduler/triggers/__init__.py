"""The messages that carry triggers: built from rows, packed, published. Every run uses them."""
