"""The API objects: pure functions on plain values. See docs/api.md.

Read `kind` (what a kind is), `strategy` (the way of an object in), `wire` (JSON as Go reads it), `metadata`, then a kind: `resource.claim`.
`registry` collects the kinds, `errors` has what goes wrong, `quantity` and `gates` stand alone, `manifests` reads what people write.
"""
