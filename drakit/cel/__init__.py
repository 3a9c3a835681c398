"""cel: see docs/architecture.md."""
