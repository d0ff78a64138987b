"""The version, below everything that tells it."""

VERSION = "0.1.0"
