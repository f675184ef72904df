"""The folder of this checkout, for tests that read its examples, docs and sources."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
