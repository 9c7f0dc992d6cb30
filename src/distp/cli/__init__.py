"""The ``distp`` command: thin, no mathematics."""
