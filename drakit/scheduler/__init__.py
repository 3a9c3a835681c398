"""The scheduler: a queue of pods, filters and scores over nodes, devices through the allocator, binding in the background.

Read in this order: `pods`, `labels`, `nodes`, `node_affinity`, `filters`, `claims`, `extended`, `evicting`, `devices`, `decide` (one
decision, pure), `preemption`, `groups`, `queue`, `hints`, `tracker`, `binding` (what is written), `scheduler` (the shell around them).
"""

from drakit.scheduler.scheduler import Scheduler
from drakit.scheduler.state import PACK, SPREAD, Policy, State

__all__ = ["PACK", "SPREAD", "Policy", "Scheduler", "State"]
