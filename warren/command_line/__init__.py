"""The commands, one module each, imported when used."""
