"""Runs other libraries' code as handlers; each module needs the library it is named after."""
