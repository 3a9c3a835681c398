"""The functions an environment may offer: CEL's standard ones, its extensions, and Kubernetes' own.

Each module declares one library as data (`FUNCTIONS`), its macros where it has any (`MACROS`), and its values.
"""
