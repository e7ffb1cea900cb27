"""The errands themselves; they load everything that the server has."""
