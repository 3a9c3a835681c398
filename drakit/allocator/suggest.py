"""What would make the claims fit: candidate changes, each tried before it is offered.

Single changes first, the least intrusive kinds before the others. When none suffices, everything is relaxed at once and
then taken back piece by piece, which leaves a smallest combination. The number of tries is bounded, and smaller the more devices each
has to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from drakit.allocator.bounds import Bounds
from drakit.allocator.changes import Change, apply
from drakit.allocator.errors import Stop
from drakit.allocator.outcome import Blocker, Budget, Suggestion
from drakit.allocator.pools import INCOMPLETE, GatherError
from drakit.allocator.problem import Alternative, Problem, bits
from drakit.allocator.results import assemble
from drakit.allocator.search import Search
from drakit.allocator.selection import Fault, activation
from drakit.allocator.taints import taints_in_the_way

__all__ = ["Suggester"]

_TRIES = 300
_DEVICES = 1000  # in reach of the node: as many again cost a try as much again
_PER_TRY = Budget(steps=20_000)
_MOST = 8
_PLACES = 12


class Suggester:
    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._tries = 0
        self._dropped_constraints: list[Change] = []
        self._dropped_requests: list[Change] = []
        self._alternatives = [alternative for slot in problem.slots for alternative in slot.alternatives]

    # Trying

    def _fits(self, *changes: Change) -> bool:
        return self._solve(changes) is not None

    def _solve(self, changes: Sequence[Change]) -> tuple[Problem, Search] | None:
        self._tries += 1 + self._problem.view.size // _DEVICES
        if self._tries > _TRIES:
            return None
        problem = self._problem
        inventory, allocated, node, claims = apply(
            changes, problem.inventory, problem.allocated, problem.node, problem.claims
        )
        try:
            view = inventory.view(node, problem.features)
            changed = Problem(inventory, allocated, view, node, claims, problem.features)
            search = Search(changed, _PER_TRY)
            if not search.run():
                return None
            assemble(changed, search)
        except (Stop, GatherError):
            return None
        return changed, search

    # Suggestions

    def suggestions(self) -> list[Suggestion]:
        found: list[Suggestion] = []
        for kind in (
            self._free,
            self._tolerations,
            self._constraints,
            self._counts,
            self._capacities,
            self._selectors,
            self._modes,
            self._classes,
            self._requests,
            self._pools,
        ):
            for suggestion in kind():
                found.append(suggestion)
                if len(found) >= _MOST:
                    return found
        return found or [*self._elsewhere()] or [*self._combination()]

    def _free(self) -> Iterator[Suggestion]:
        held = self._held()
        if not held:
            return
        solution = self._solve([_freeing(held)])
        if solution is None:
            return
        problem, search = solution
        used = {problem.view.device_id(choice.number) for choices in search.results for choice in choices}
        smaller = [device for device in held if device in used]
        if smaller and self._fits(_freeing(smaller)):
            held = smaller
        needed = self._reduced(held, lambda devices: self._fits(_freeing(devices)))
        names = dict.fromkeys(name for device in needed for name in self._holders(device))
        text = f"free {listed(needed)} (held by {listed(list(names))})"
        yield Suggestion("free", text, (_freeing(needed),))

    def _held(self) -> list[str]:
        found = []
        for pool in self._problem.view.pools:
            held = self._problem.allocated.pools.get(pool.key)
            if held is not None:
                others = (
                    n
                    for n, by in held.devices.items()
                    if not self._problem.asker.own.issuperset((*by.dedicated, *by.shares))
                )
                found += [f"{pool.key[0]}/{pool.key[1]}/{name}" for name in sorted(others)]
        return found

    def _holders(self, device: str) -> tuple[str, ...]:
        driver, _, rest = device.partition("/")
        pool, _, name = rest.rpartition("/")
        return self._problem.allocated.holders((driver, pool), name, self._problem.asker)

    def _tolerations(self) -> Iterator[Suggestion]:
        if not self._problem.features.DeviceTaints:
            return
        for alternative in self._alternatives:
            changes = self._tolerating(alternative)
            helpful = [change for change in changes if self._fits(change)]
            if not helpful and len(changes) > 1 and self._fits(*changes):
                needed = self._reduced(changes, lambda some: self._fits(*some))
                yield Suggestion("tolerate", _tolerate_text(alternative, needed), tuple(needed))
            for change in helpful:
                yield Suggestion("tolerate", _tolerate_text(alternative, [change]), (change,))

    def _tolerating(self, alternative: Alternative, *, all_devices: bool = False) -> list[Change]:
        selected, _ = self._problem.selected(alternative)
        wanted = (1 << self._problem.view.size) - 1 if all_devices else selected
        taints: dict[Any, None] = {}
        for number in bits(wanted & ~alternative.mask):
            pool, position = self._problem.view.locate(number)
            taints.update(dict.fromkeys(taints_in_the_way(pool.layout.traits[position], alternative.tolerations)))
        return [
            {
                "op": "tolerate",
                **_address(alternative),
                "toleration": {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect},
            }
            for taint in taints
        ]

    def _constraints(self) -> Iterator[Suggestion]:
        for change, constraint in self._droppable():
            if self._fits(change):
                self._dropped_constraints.append(change)
                text = f"drop constraint #{change['index']} ({constraint}) of claim {change['claim']}"
                yield Suggestion("drop-constraint", text, (change,))

    def _droppable(self) -> list[tuple[Change, str]]:
        names = {slot.claim_index: slot.claim_name for slot in self._problem.slots}
        return [
            ({"op": "drop-constraint", "claim": names[index], "index": constraint.index}, str(constraint))
            for index, constraints in enumerate(self._problem.constraints)
            if index in names
            # From the last on, so that several can be dropped one after the other.
            for constraint in reversed(constraints)
        ]

    def _counts(self) -> Iterator[Suggestion]:
        for alternative in self._alternatives:
            if alternative.all_mode or alternative.count < 2:
                continue
            fitting = self._largest(partial(_counting, "set-count", alternative), alternative.count - 1)
            if fitting:
                text = f"lower the count of request {_where(alternative)} from {alternative.count} to {fitting}"
                yield Suggestion("lower-count", text, (_counting("set-count", alternative, fitting),))

    def _largest(self, change: Callable[[int], Change], most: int) -> int:
        """The largest number up to `most` with which it fits; fewer devices are never harder to find."""
        if most < 1 or not self._fits(change(1)):
            return 0
        low, high = 1, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(change(middle)):
                low = middle
            else:
                high = middle - 1
        return low

    def _modes(self) -> Iterator[Suggestion]:
        for alternative in self._alternatives:
            if not alternative.all_mode:
                continue
            most = max(1, alternative.count)
            fitting = self._largest(partial(_counting, "ask-for-some", alternative), most)
            if fitting:
                text = f"ask for {fitting} device{'s' * (fitting > 1)} (ExactCount) instead of All in request {_where(alternative)}"
                yield Suggestion("ask-for-some", text, (_counting("ask-for-some", alternative, fitting),))

    def _capacities(self) -> Iterator[Suggestion]:
        for alternative in self._alternatives:
            for name in alternative.capacity.requests if alternative.capacity is not None else ():
                for value in [*self._values_left(alternative, name), None]:
                    change: Change = {"op": "set-capacity", **_address(alternative), "capacity": name, "value": value}
                    if self._fits(change):
                        what = f"lower the requested {name} to {value}" if value else f"do not request {name}"
                        yield Suggestion("lower-capacity", f"{what} in request {_where(alternative)}", (change,))
                        break

    def _values_left(self, alternative: Alternative, name: str) -> list[str]:
        """Amounts of the capacity that devices could still give, largest first, below what is requested."""
        assert alternative.capacity is not None
        wanted = alternative.capacity.requests[name]
        selected, _ = self._problem.selected(alternative)
        values: dict[str, Any] = {}
        for number in bits(selected):
            pool, position = self._problem.view.locate(number)
            capacity = pool.layout.shapes[position].capacity.get(name)
            if capacity is None:
                continue
            policy = capacity.policy
            offers = [capacity.value, *(policy.values or () if policy is not None else ())]
            offers += (
                [bound for bound in (policy.minimum, policy.maximum) if bound is not None] if policy is not None else []
            )
            values.update({str(offer): offer for offer in offers if offer < wanted and offer.sign > 0})
        return [text for text, _ in sorted(values.items(), key=lambda item: item[1], reverse=True)][:6]

    def _selectors(self) -> Iterator[Suggestion]:
        for alternative in self._alternatives:
            for change, text in self._relaxations(alternative, of_class=False):
                if self._fits(change):
                    yield Suggestion("relax-selector", f"{text} in request {_where(alternative)}", (change,))

    def _relaxations(self, alternative: Alternative, *, of_class: bool) -> Iterator[tuple[Change, str]]:
        """Each selector without one of its conjuncts, or gone where it has only one."""
        for in_class, index, selector in alternative.selection.selectors():
            if in_class is not of_class:
                continue
            target = (
                {"op": "set-class-selector", "deviceClass": alternative.spec.deviceClassName}
                if of_class
                else {
                    "op": "set-selector",
                    **_address(alternative),
                }
            )
            conjuncts = self._conjuncts(selector)
            if len(conjuncts) < 2:
                yield {**target, "index": index, "expression": None}, f"drop selector #{index}"
                continue
            for dropped, text in enumerate(conjuncts):
                rest = " && ".join(f"({other})" for n, other in enumerate(conjuncts) if n != dropped)
                yield {**target, "index": index, "expression": rest}, f"drop {text} from selector #{index}"

    def _conjuncts(self, selector: Any) -> list[str]:
        if isinstance(selector, Fault) or not self._problem.shapes:
            return []
        return [conjunct.text for conjunct in selector.explain(activation(self._problem.shapes[0])).conjuncts]

    def _classes(self) -> Iterator[Suggestion]:
        for alternative in self._alternatives:
            present = alternative.spec.deviceClassName
            for name in sorted(self._problem.inventory.classes)[:10]:
                other: Change = {"op": "set-class", **_address(alternative), "deviceClass": name}
                if name != present and self._fits(other):
                    text = f"use device class {name} instead of {present} in request {_where(alternative)}"
                    yield Suggestion("other-class", text, (other,))
                    break
        seen = set()
        for alternative in self._alternatives:
            if alternative.spec.deviceClassName in seen:
                continue
            seen.add(alternative.spec.deviceClassName)
            for change, text in self._relaxations(alternative, of_class=True):
                if self._fits(change):
                    yield Suggestion("relax-class", f"{text} of device class {change['deviceClass']}", (change,))

    def _requests(self) -> Iterator[Suggestion]:
        if len(self._problem.slots) < 2:
            return
        for slot in self._problem.slots:
            change = _dropping(slot.claim_name, slot.request.name)
            if self._fits(change):
                self._dropped_requests.append(change)
                text = f"drop request {slot.request.name} of claim {slot.claim_name}"
                yield Suggestion("drop-request", text, (change,))

    # Beyond the claims: pools and nodes

    def _pools(self) -> Iterator[Suggestion]:
        for change in self._completing():
            if self._fits(change):
                text = f"wait until all slices of pool {change['pool']} are published: those that are suffice already"
                yield Suggestion("complete-pool", text, (change,))

    def _completing(self) -> list[Change]:
        waiting = [pool.key for pool in self._problem.view.pools if pool.status == INCOMPLETE]
        return [{"op": "complete-pool", "pool": "/".join(key)} for key in waiting]

    def _completing_elsewhere(self) -> list[Change]:
        here = {pool.key for pool in self._problem.view.pools}
        waiting = [
            key for key, pool in self._problem.inventory.pools.items() if key not in here and not pool.is_complete
        ]
        return [{"op": "complete-pool", "pool": "/".join(key)} for key in waiting[:_PLACES]]

    def _elsewhere(self) -> Iterator[Suggestion]:
        for change in self._other_places():
            if self._fits(change):
                yield Suggestion(change["op"], _change_text(change), (change,))

    def _other_places(self) -> list[Change]:
        """Labels that would bring devices within reach of the node, and nodes that have devices of their own."""
        inventory, here = self._problem.inventory, self._problem.view.node_name
        records = [record for pool in inventory.pools.values() for record in pool.slices.values()]
        placements = [record.placement for record in records if record.placement is not None]
        placements += [t.placement for r in records if r.per_device for t in r.traits if t.placement is not None]
        labels: dict[str, Change] = {}
        nodes: dict[str, None] = dict.fromkeys(list(inventory.nodes)[:_PLACES])
        for placement in placements[:1000]:
            if placement.node_name:
                nodes[placement.node_name] = None
            elif not placement.all_nodes:
                wanted = placement.labels_wanted()
                if wanted:
                    labels[str(wanted)] = {"op": "label-node", "labels": wanted}
        nodes.pop(here, None)
        return [*list(labels.values())[:_PLACES], *({"op": "use-node", "node": name} for name in list(nodes)[:_PLACES])]

    # Combinations

    def _combination(self) -> Iterator[Suggestion]:
        """Relax everything, then take back what turns out not to be needed."""
        held = self._held()
        changes: list[Change] = [{"op": "free", "devices": [device]} for device in held]
        for alternative in self._alternatives if self._problem.features.DeviceTaints else ():
            changes += self._tolerating(alternative, all_devices=True)
        changes += [change for change, _ in self._droppable()]
        for alternative in self._alternatives:
            if alternative.capacity is not None:
                changes += [
                    {"op": "set-capacity", **_address(alternative), "capacity": name, "value": None}
                    for name in alternative.capacity.requests
                ]
            changes += [
                {"op": "set-selector", **_address(alternative), "index": index, "expression": None}
                for in_class, index, _ in alternative.selection.selectors()
                if not in_class
            ]
        for alternative in self._alternatives:
            if alternative.all_mode:
                changes.append(_counting("ask-for-some", alternative, 1))
            elif alternative.count > 1:
                changes.append(_counting("set-count", alternative, 1))
        classes = dict.fromkeys(a.spec.deviceClassName for a in self._alternatives)
        for name in classes:
            selection = next(a.selection for a in self._alternatives if a.spec.deviceClassName == name)
            changes += [
                {"op": "set-class-selector", "deviceClass": name, "index": index, "expression": None}
                for in_class, index, _ in selection.selectors()
                if in_class
            ]
        changes += self._completing()
        if self._problem.features.OptionalNodeOperations and not self._problem.skips_node_operations:
            changes.append({"op": "declare-feature", "feature": "DRAOptionalNodeOperations"})
        self._tries = 0
        fewer: list[list[Change]] = [[], *self._fewer_requests()]
        waiting = self._completing_elsewhere()
        places: list[list[Change]] = [[], *([place, *waiting] for place in self._other_places())]
        for extra in ([*place, *dropped] for place in places for dropped in fewer):
            every = [c for c in [*changes, *extra] if not _is_dropped(c, extra)]
            if self._fits(*every):
                # The most intrusive are taken back first.
                needed = self._reduced(every[::-1], lambda some: self._fits(*_in_order(some)))
                ordered = _in_order(needed)
                text = " and ".join(_change_text(change) for change in _merged(ordered))
                yield Suggestion("combine", text, tuple(_merged(ordered)))
                return

    def _fewer_requests(self) -> Iterator[list[Change]]:
        """Without the last requests, one more each time, as long as one is left."""
        slots = self._problem.slots
        for kept in range(len(slots) - 1, 0, -1):
            yield [_dropping(slot.claim_name, slot.request.name) for slot in slots[kept:]]
        if len(slots) > 1:
            for alone in slots:
                yield [_dropping(s.claim_name, s.request.name) for s in slots if s is not alone]

    def _reduced(self, items: list[Any], enough: Callable[[list[Any]], bool]) -> list[Any]:
        """A subset that is still enough and from which nothing more can go; halves first, then one by one."""
        size = len(items) // 2
        while size >= 1:
            start = 0
            while start < len(items):
                rest = items[:start] + items[start + size :]
                if rest and enough(rest):
                    items = rest
                else:
                    start += size
            size //= 2
        return items

    # Blockers that only show when requests meet

    def blockers(self) -> list[Blocker]:
        found = []
        for change in self._dropped_constraints:
            constraint = next(
                c
                for slot in self._problem.slots
                if slot.claim_name == change["claim"]
                for c in self._problem.constraints[slot.claim_index]
                if c.index == change["index"]
            )
            text = (
                f"claim {change['claim']}: no choice of devices satisfies constraint #{change['index']} ({constraint})"
            )
            found.append(Blocker("constraint", text, claim=change["claim"], data={"index": change["index"]}))
        search = Search(self._problem, _PER_TRY)
        bounds = Bounds(search)
        entries = [bounds.entry(index) for index in range(len(self._problem.slots))]
        present = [entry for entry in entries if entry is not None]
        if len(present) != len(entries):
            return found  # a request falls short by itself; it has been named
        if not bounds.enough(present):
            wanted = sum(entry.need for entry in present)
            union = 0
            for entry in present:
                union |= entry.mask()
            text = f"the requests compete: together they want at least {wanted} devices, {union.bit_count()} are free for them"
            found.append(Blocker("contention", text, data={"wanted": wanted, "free": union.bit_count()}))
        if not bounds.counters_suffice(present):
            found.append(Blocker("counter", "the requests together need more of the shared counters than is left"))
        for change in self._dropped_requests if not found else ():
            text = f"claim {change['claim']}, request {change['request']}: what it needs is taken by the other requests"
            found.append(Blocker("contention", text, change["claim"], change["request"]))
        return found


def _address(alternative: Alternative) -> dict[str, str]:
    return {"claim": alternative.slot.claim_name, "request": alternative.full_name}


def _where(alternative: Alternative) -> str:
    return f"{alternative.full_name} of claim {alternative.slot.claim_name}"


def _freeing(devices: Sequence[str]) -> Change:
    return {"op": "free", "devices": tuple(devices)}


def _dropping(claim: str, request: str) -> Change:
    return {"op": "drop-request", "claim": claim, "request": request}


def _counting(op: str, alternative: Alternative, count: int) -> Change:
    return {"op": op, **_address(alternative), "count": count}


def _is_dropped(change: Change, dropped: Sequence[Change]) -> bool:
    """Whether the change is about a request that goes away altogether."""
    if change["op"] == "drop-request" or "request" not in change:
        return False
    request = change["request"].partition("/")[0]
    return any(change["claim"] == other.get("claim") and request == other.get("request") for other in dropped)


def _in_order(changes: Sequence[Change]) -> list[Change]:
    """Constraints from the last on, requests dropped at the end: numbers and names stay valid."""
    rank = {"use-node": -2, "label-node": -1, "drop-constraint": 1, "drop-request": 2}
    return sorted(
        changes, key=lambda c: (rank.get(c["op"], 0), -c.get("index", 0) if c["op"] == "drop-constraint" else 0)
    )


def _merged(changes: Sequence[Change]) -> list[Change]:
    freed = [device for change in changes if change["op"] == "free" for device in change["devices"]]
    rest = [change for change in changes if change["op"] != "free"]
    return [_freeing(freed), *rest] if freed else rest


def _tolerate_text(alternative: Alternative, changes: Sequence[Change]) -> str:
    taints = [
        f"{t['key']}{'=' + t['value'] if t['value'] else ''}:{t['effect']}" for t in (c["toleration"] for c in changes)
    ]
    return f"tolerate {listed(taints)} in request {_where(alternative)}"


def _change_text(change: Change) -> str:
    where = f"request {change['request']} of claim {change['claim']}" if "request" in change else ""
    match change["op"]:
        case "free":
            return f"free {listed(change['devices'])}"
        case "set-count":
            return f"lower the count of {where} to {change['count']}"
        case "ask-for-some":
            return f"ask for {change['count']} (ExactCount) instead of All in {where}"
        case "set-selector":
            return f"drop selector #{change['index']} in {where}"
        case "set-class-selector":
            return f"drop selector #{change['index']} of device class {change['deviceClass']}"
        case "tolerate":
            toleration = change["toleration"]
            return f"tolerate {toleration['key']}:{toleration['effect']} in {where}"
        case "set-capacity":
            return f"do not request {change['capacity']} in {where}"
        case "drop-constraint":
            return f"drop constraint #{change['index']} of claim {change['claim']}"
        case "complete-pool":
            return f"wait until all slices of pool {change['pool']} are published"
        case "label-node":
            texts = [f"{key}={value}" if value is not None else f"no {key}" for key, value in change["labels"].items()]
            return f"label the node so that it reaches more devices ({listed(texts)})"
        case "use-node":
            return f"use node {change['node']}"
        case "declare-feature":
            return f"use a node that declares {change['feature']}"
        case _:
            return f"drop {where}"


def listed(items: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(items[:4])
    return shown if len(items) <= 4 else f"{shown} and {len(items) - 4} more"
