"""workload: see docs/architecture.md."""
