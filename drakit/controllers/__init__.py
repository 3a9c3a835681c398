"""controllers: see docs/architecture.md."""
