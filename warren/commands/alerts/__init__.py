"""`warren incidents`: commands about what is not as expected."""
