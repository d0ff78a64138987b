"""Stands in for a recogniser: as many words as fit into the wav that it is given."""

import sys
import wave

with wave.open(sys.argv[1]) as sound:
    seconds = sound.getnframes() / sound.getframerate()
print(" ".join(["wonderful banana"] * max(1, round(seconds - 0.3))))
