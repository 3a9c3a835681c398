"""Why claims do not fit on a node: per request what each check leaves, and what stands in the way.

Works on the same Problem as the search, so it sees exactly what the search saw. Suggestions are made and verified in
`suggest`; constraints and rivalry between requests are named there too, because only trying tells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import ResourceClaim

from drakit.allocator.allocated import Allocated, Asker
from drakit.allocator.capacity import Consumed
from drakit.allocator.claims import name_of
from drakit.allocator.features import Features
from drakit.allocator.inventory import Inventory
from drakit.allocator.outcome import Blocker, ClaimReason, Explanation, Held, RequestReason, SelectorStep
from drakit.allocator.pools import INCOMPLETE, OK
from drakit.allocator.problem import Alternative, Problem, bits
from drakit.allocator.selection import Fault, activation
from drakit.allocator.suggest import Suggester, listed
from drakit.allocator.taints import taints_in_the_way
from drakit.cel.values import NONE, Optional

__all__ = ["explain"]

_SHOWN = 5  # distinct values listed per rejected conjunct


def explain(
    inventory: Inventory,
    allocated: Allocated,
    node: Node,
    claims: Sequence[ResourceClaim],
    features: Features,
    asker: Asker,
) -> Explanation:
    view = inventory.view(node, features)
    problem = Problem(inventory, allocated, view, node, claims, features)
    problem.asker = asker
    reasons: list[list[RequestReason]] = [[] for _ in claims]
    blockers = _pool_blockers(problem)
    for slot in problem.slots:
        found = [_Reader(problem, alternative) for alternative in slot.alternatives]
        reasons[slot.claim_index] += [reader.reason() for reader in found]
        if all(reader.falls_short for reader in found):
            for reader in found:
                blockers += reader.blockers()
    suggester = Suggester(problem)
    suggestions = suggester.suggestions()
    blockers += suggester.blockers()
    if not blockers:
        blockers.append(
            Blocker("together", "each request alone could be served, but no choice of devices serves all together")
        )
    claim_reasons = tuple(
        ClaimReason(name_of(claim), tuple(found)) for claim, found in zip(claims, reasons, strict=True)
    )
    summary = f"cannot allocate all claims on node {view.node_name}: " + "; ".join(
        blocker.text for blocker in blockers[:3]
    )
    return Explanation(view.node_name, summary, claim_reasons, tuple(blockers), tuple(suggestions))


def _pool_blockers(problem: Problem) -> list[Blocker]:
    blockers = []
    for pool in problem.view.pools:
        if pool.status == OK:
            continue
        name = "/".join(pool.key)
        if pool.status == INCOMPLETE:
            text = f"pool {name} is incomplete: not all of its slices are published yet, so none of its devices can be used"
            blockers.append(Blocker("pool-incomplete", text, data={"pool": name}))
        else:
            text = f"pool {name} is invalid ({pool.reason}), so none of its devices can be used"
            blockers.append(Blocker("pool-invalid", text, data={"pool": name, "reason": pool.reason}))
    if not problem.view.pools:
        text = f"node {problem.view.node_name} can reach no devices: no ResourceSlice is published for it"
        blockers.append(Blocker("no-devices", text))
    return blockers


class _Reader:
    """One alternative: what every check leaves of the node's devices."""

    def __init__(self, problem: Problem, alternative: Alternative) -> None:
        self._problem = problem
        self._alternative = alternative
        self._selected, _ = problem.selected(alternative)
        everything = (1 << problem.view.size) - 1
        self._everything = everything
        self._busy = self._selected & problem.dedicated if not alternative.admin else 0
        self._rest = self._selected & ~self._busy
        self._lost: list[tuple[str, int, str]] = []  # (kind, device, detail) of selected devices that cannot be had
        self._find_losses()

    @property
    def falls_short(self) -> bool:
        alternative = self._alternative
        if alternative.all_mode:
            return not alternative.devices or alternative.mask.bit_count() < alternative.count
        return alternative.mask.bit_count() < alternative.count

    def _find_losses(self) -> None:
        problem, alternative = self._problem, self._alternative
        for number in bits(self._rest & ~alternative.mask):
            self._lost.append(self._loss(problem, alternative, number))

    def _loss(self, problem: Problem, alternative: Alternative, number: int) -> tuple[str, int, str]:
        pool, position = problem.view.locate(number)
        layout, bit = pool.layout, 1 << number
        name = layout.names[position]
        if alternative.capacity is not None:
            verdict = alternative.capacity.verdict(layout.shapes[position])
            if isinstance(verdict, str):
                return "capacity", number, verdict
            if isinstance(verdict, Consumed) and problem.exhausted(alternative.capacity, bit & problem.shared):
                used = problem.allocated.pools[pool.key].capacity(name)
                short = next(n for n, a in verdict.amounts.items() if a + used.get(n, 0) > verdict.limits[n])
                holders = ", ".join(problem.allocated.holders(pool.key, name, problem.asker))
                return "capacity", number, f"too little {short} left beside the shares of {holders}"
        if layout.skipping >> position & 1 and not problem.skips_node_operations:
            return "unsupported", number, "needs a node that declares DRAOptionalNodeOperations, and that feature"
        if layout.consuming >> position & 1 and not problem.features.PartitionableDevices:
            return "unsupported", number, "consumes counters, and the DRAPartitionableDevices feature is off"
        for counters in problem.counters:
            if counters.barred & bit and not problem.shareable & problem.shared & bit:
                shortage = counters.shortage(number)
                return ("counters", number, shortage) if shortage else ("groups", number, "")
        if problem.features.DeviceTaints and layout.tainted >> position & 1:
            taints = taints_in_the_way(layout.traits[position], alternative.tolerations)
            if text := ", ".join(str(taint) for taint in taints):
                return "taint", number, text
        for which, constraint in enumerate(alternative.constraints):
            if problem.elements(alternative, which, number) is None:
                return "unsupported", number, f"has no attribute {constraint.attribute}, which {constraint} needs"
        return "unsupported", number, "cannot be used"

    def reason(self) -> RequestReason:
        alternative, problem = self._alternative, self._problem
        by_kind: dict[str, list[tuple[str, str]]] = {}
        for kind, number, detail in self._lost:
            by_kind.setdefault(kind, []).append((problem.view.device_id(number), detail))
        steps, in_class = self._steps()
        return RequestReason(
            request=alternative.full_name,
            wanted="All" if alternative.all_mode else alternative.count,
            on_node=self._everything.bit_count(),
            in_class=in_class,
            selected=self._selected.bit_count(),
            steps=steps,
            busy=tuple(self._held(number) for number in bits(self._busy)),
            tainted=tuple(by_kind.get("taint", ())),
            short_of_capacity=tuple(by_kind.get("capacity", ())),
            short_of_counters=tuple(by_kind.get("counters", ())),
            incompatible=tuple(device for device, _ in by_kind.get("groups", ())),
            unsupported=tuple(by_kind.get("unsupported", ())),
            free=alternative.mask.bit_count(),
        )

    def _held(self, number: int) -> Held:
        pool, position = self._problem.view.locate(number)
        holders = self._problem.allocated.holders(pool.key, pool.layout.names[position], self._problem.asker)
        return Held(self._problem.view.device_id(number), holders)

    # Selectors

    def _steps(self) -> tuple[tuple[SelectorStep, ...], int]:
        """Every conjunct that turned devices away, in the order of evaluation, and how many the class left."""
        alternative = self._alternative
        left = Counter(self._problem.shapes)
        steps: list[SelectorStep] = []
        in_class = sum(left.values())
        for of_class, index, selector in alternative.selection.selectors():
            source = f"class {alternative.spec.deviceClassName}" if of_class else f"request {alternative.full_name}"
            if isinstance(selector, Fault):
                steps.append(SelectorStep(source, index, "", "", 0, sum(left.values()), error=selector.text))
                left = Counter()
                continue
            found, left = _judge(source, index, selector, left)
            steps += found
            if of_class:
                in_class = sum(left.values())
        return tuple(steps), in_class

    # Blockers

    def blockers(self) -> list[Blocker]:
        alternative, problem = self._alternative, self._problem
        claim, request = alternative.slot.claim_name, alternative.full_name
        reason = self.reason()
        where = f"claim {claim}, request {request}"
        wants = (
            "all matching devices"
            if alternative.all_mode
            else f"{alternative.count} device{'s' * (alternative.count != 1)}"
        )
        found: list[Blocker] = []

        def add(kind: str, text: str, **data: Any) -> None:
            found.append(Blocker(kind, f"{where} wants {wants}: {text}", claim, request, data))

        if not reason.on_node:
            add("no-devices", "the node can reach none", on_node=0)
            return found
        for step in reason.steps:
            if step.rejected and (not alternative.all_mode or not reason.selected):
                seen = "; ".join(f"{count} with {value}" for value, count in step.values[:3])
                total = step.passed + step.rejected
                text = f"{step.conjunct} ({step.source}) turns away {step.rejected} of {total}" + (
                    f": {seen}" if seen else ""
                )
                kind = "class" if step.source.startswith("class ") else "selector"
                add(kind, text, conjunct=step.conjunct, rejected=step.rejected, of=total)
        if reason.busy:
            holders = Counter(holder for held in reason.busy for holder in held.holders)
            names = listed([name for name, _ in holders.most_common()])
            count = len(reason.busy)
            add(
                "busy",
                f"{count} matching device{'s are' if count != 1 else ' is'} held by {names}",
                devices=[h.device for h in reason.busy],
            )
        unreachable = (reason.in_class and not reason.selected and not reason.steps) or 0
        if unreachable:
            add("placement", "matching devices are reachable from other nodes only")
        alike: dict[tuple[str, str], list[str]] = {}
        for kind, number, detail in self._lost:
            alike.setdefault((kind, detail), []).append(problem.view.device_id(number))
        for (kind, detail), devices in alike.items():
            shown = devices[0] if len(devices) == 1 else f"{devices[0]} and {len(devices) - 1} more"
            add(_KINDS[kind], f"{shown}: {_WORDS[kind]}{': ' if detail else ''}{detail}", devices=devices)
        if not found:
            have = alternative.mask.bit_count()
            add("count", f"only {have} on the node match" if reason.on_node else "none on the node", have=have)
        return found


_WORDS: Mapping[str, str] = {
    "capacity": "not enough capacity",
    "counters": "shared counters are used up",
    "groups": "in other compatibility groups than the devices in use beside it",
    "taint": "tainted, and not tolerated",
    "unsupported": "cannot be used",
}
_KINDS: Mapping[str, str] = {
    "capacity": "capacity",
    "counters": "counter",
    "groups": "compatibility",
    "taint": "taint",
    "unsupported": "unsupported",
}


def _judge(source: str, index: int, selector: Any, left: Counter[Any]) -> tuple[list[SelectorStep], Counter[Any]]:
    """What one selector does to the devices that are left: a step per conjunct, and who passes."""
    rejected: dict[str, int] = {}
    values: dict[str, Counter[str]] = {}
    errors: dict[str, str] = {}
    passed: Counter[Any] = Counter()
    order: dict[str, None] = {}
    for shape, count in left.items():
        explanation = selector.explain(activation(shape))
        order.update(dict.fromkeys(conjunct.text for conjunct in explanation.conjuncts))
        if explanation.matches:
            passed[shape] = count
            continue
        decisive = explanation.decisive
        text = decisive.text if decisive is not None else selector.expression
        order.setdefault(text)
        rejected[text] = rejected.get(text, 0) + count
        if explanation.error:
            errors.setdefault(text, explanation.error)
        if decisive is not None:
            values.setdefault(text, Counter())[_seen(decisive.seen)] += count
    steps = []
    reached = sum(left.values())
    for text in order:
        gone = rejected.get(text, 0)
        reached -= gone
        if gone:
            common = tuple(values.get(text, Counter()).most_common(_SHOWN))
            steps.append(
                SelectorStep(source, index, selector.expression, text, reached, gone, common, errors.get(text, ""))
            )
    return steps, passed


def _seen(values: Mapping[str, Any]) -> str:
    # The shortest texts are the operands.
    shown = sorted(values.items(), key=lambda item: len(item[0]))[:3]
    return ", ".join(f"{expression} = {_shown(value)}" for expression, value in shown) or "another value"


def _shown(value: Any) -> str:
    if isinstance(value, Optional):
        return "absent" if value is NONE else _shown(value.value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(map(str, value))) + "}"  # a whole domain: what it holds says enough
    return str(value).lower() if isinstance(value, bool) else str(value)
