"""The node agent and its runtimes: see docs/node.md. Start reading at `agent`, then `pod_worker` and `claims`."""

import os

# Children are started by fork (uvloop) while gRPC's threads run: its fork handlers must not run in them. Set before gRPC is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
