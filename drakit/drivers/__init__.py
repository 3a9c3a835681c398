"""drivers: see docs/architecture.md."""
