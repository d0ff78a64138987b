"""The version, importable from everywhere."""

VERSION = "0.1.0"
