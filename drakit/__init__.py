"""drakit: Kubernetes Dynamic Resource Allocation in Python. Start reading at docs/architecture.md."""
