"""The texts of pages, in each language."""
