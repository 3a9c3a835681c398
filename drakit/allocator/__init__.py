"""allocator: see docs/architecture.md."""
