"""The type table, where the server's patch and apply code looks for it: see `drakit.api.schema`."""

from drakit.api.schema import Node, docs, named, of, openapi_name, root

__all__ = ["Node", "docs", "named", "of", "openapi_name", "root"]
