"""Recordings to a corpus, and its review in a browser."""
