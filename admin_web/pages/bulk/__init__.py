"""Pages for bulk actions on runs and jobs: confirm, start, show the progress."""
