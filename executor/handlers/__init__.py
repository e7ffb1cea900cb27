"""The API for users' handlers: their declaration, their context, what they may return or raise."""
