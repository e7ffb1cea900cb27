"""Commands on many jobs or runs at once, in small transactions."""
