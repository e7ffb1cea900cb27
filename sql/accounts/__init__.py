"""Users, their sign-ins, and the audit log of what they did."""
