"""The schema of the database: migration, checks at the start, and account rights."""
