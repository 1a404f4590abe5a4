"""The version, as outputs carry it."""

VERSION = "0.1.0"
