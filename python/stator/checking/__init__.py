"""Checks of compiled programs against the plain ones: `stator.repro` and shadow mode."""
