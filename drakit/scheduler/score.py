"""Which of the nodes that fit is best: the weighted sum of Kubernetes' scores (0 to 100 each), on what was sampled.

Weights as in the default profile: taints 3, node affinity 2, spread 2, inter-pod affinity 2, devices 2, resources 1, balance 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from drakit.scheduler.affinity import Neighbours
from drakit.scheduler.node_affinity import Choice
from drakit.scheduler.nodes import NodeInfo
from drakit.scheduler.pods import CPU, MEMORY, PodInfo
from drakit.scheduler.selectors import tolerates
from drakit.scheduler.spread import Spread
from drakit.scheduler.state import PACK


def resource_scores(info: PodInfo, nodes: Sequence[NodeInfo], placement: str) -> list[int]:
    """LeastAllocated (or MostAllocated) and BalancedAllocation over CPU and memory, 0 to 200. One loop: every pod comes here."""
    wanted_cpu, wanted_memory = info.nonzero
    packing = placement == PACK
    scores = []
    for node in nodes:
        allocatable = node.allocatable
        cpu, memory = allocatable.get(CPU, 0), allocatable.get(MEMORY, 0)
        if not cpu or not memory:
            scores.append(0)
            continue
        free_cpu = cpu - node.nonzero_cpu - wanted_cpu
        free_memory = memory - node.nonzero_memory - wanted_memory
        left_cpu = free_cpu * 100 // cpu if free_cpu > 0 else 0
        left_memory = free_memory * 100 // memory if free_memory > 0 else 0
        room = (left_cpu + left_memory) // 2
        # The standard deviation of two fractions is half their distance.
        distance = left_cpu - left_memory if left_cpu > left_memory else left_memory - left_cpu
        scores.append((100 - room if packing else room) + 100 - distance // 2)
    return scores


def best_first(
    info: PodInfo,
    candidates: Sequence[NodeInfo],
    *,
    placement: str,
    choice: Choice,
    spread: Spread | None,
    neighbours: Neighbours | None,
    extras: Sequence[Sequence[int]] = (),
) -> list[int]:
    """Indexes of the candidates, best first; equals keep their order, so that the search's rotation decides."""
    if len(candidates) == 1:
        return [0]
    totals = resource_scores(info, candidates, placement)
    if choice.preference:
        _add(totals, 2, _scaled([choice.preference.of(node.slot) for node in candidates]))
    if any([node.taints for node in candidates]):  # noqa: C419 a list is the quicker for a few
        counts = [_soft_taints(info, node) for node in candidates]
        if any(counts):
            _add(totals, 3, _reversed(counts))
    if spread is not None and spread.soft:
        _add(totals, 2, _reversed([spread.score(node) for node in candidates]))
    if neighbours is not None and neighbours.preference:
        _add(totals, 2, _stretched([neighbours.score(node) for node in candidates]))
    for extra in extras:  # DynamicResources: rank of alternatives, fullness of partitioned devices
        _add(totals, 2, _scaled(extra))
    packing = -1 if placement == PACK else 1
    ranked = [
        (-total, packing * len(node.pods), i) for i, (total, node) in enumerate(zip(totals, candidates, strict=True))
    ]
    ranked.sort()
    return [i for _, _, i in ranked]


def _add(totals: list[int], weight: int, scores: Sequence[int]) -> None:
    for index, score in enumerate(scores):
        totals[index] += weight * score


def _scaled(raw: Sequence[int]) -> list[int]:
    highest = max(raw)
    return [100 * value // highest for value in raw] if highest > 0 else [0] * len(raw)


def _reversed(raw: Sequence[int]) -> list[int]:
    highest = max(raw)
    return [100 - 100 * value // highest for value in raw] if highest > 0 else [100] * len(raw)


def _stretched(raw: Sequence[int]) -> list[int]:
    low, high = min(raw), max(raw)
    return [100 * (value - low) // (high - low) for value in raw] if high > low else [0] * len(raw)


def _soft_taints(info: PodInfo, node: NodeInfo) -> int:
    soft = [taint for taint in node.taints if taint.effect == "PreferNoSchedule"]
    return sum(1 for taint in soft if not any(tolerates(t, taint) for t in info.tolerations))
