"""driver: see docs/architecture.md."""
