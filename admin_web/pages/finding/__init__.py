"""The pages that find: runs by their errors, anything by a few letters, what changed and when."""
