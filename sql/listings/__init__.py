"""What people look at: lists and searches, each along an index."""
