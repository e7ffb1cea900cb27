"""Tokens that let programs act for users: how they look, what they may do, making and ending."""
