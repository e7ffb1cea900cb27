"""API tokens, with which programs act for users: their text, scopes, creation and revocation."""
