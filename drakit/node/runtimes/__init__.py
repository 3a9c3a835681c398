"""Container runtimes behind `drakit.node.runtime.Runtime`; `choose` picks by what the machine has."""
