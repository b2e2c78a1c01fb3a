"""The experiments of Section 6 and the store that keeps their runs."""
