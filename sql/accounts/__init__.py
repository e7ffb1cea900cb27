"""Users, sessions, API tokens, and the audit log."""
