"""Makes a corpus of raw recordings: finds speech, cuts, checks and transcribes it."""
