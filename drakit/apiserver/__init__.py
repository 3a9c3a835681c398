"""apiserver: see docs/architecture.md."""
