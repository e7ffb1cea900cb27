"""Who may see what: sign-ins, cookies, and the gate that every request passes."""
