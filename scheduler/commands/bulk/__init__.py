"""What people do with many things at once: in small units of work, each on record."""
