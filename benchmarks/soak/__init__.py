"""`make soak`: a cluster at work while things die, judged by a book of starts outside of it."""
