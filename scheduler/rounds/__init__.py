"""When a role makes its next round: its thread, what wakes it, and when it may rest."""
