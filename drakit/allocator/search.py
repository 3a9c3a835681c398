"""The search: upstream's depth-first order, without its dead branches.

The first solution is the one that upstream finds: slots in order, devices in order, combinations inside a slot. The
walk starts plain, because the first descent usually succeeds. Once it has to go back it asks `bounds` before every
further try, remembers failed states, and skips devices that are interchangeable with one that failed.

None of that may hide a fatal error: upstream reports a broken selector only when its walk reaches such a device, so a
branch is cut only where it cannot reach one ("hazards").
"""

from __future__ import annotations

from typing import Final

from drakit.allocator.bounds import Bounds
from drakit.allocator.capacity import Consumed
from drakit.allocator.counters import PoolCounters
from drakit.allocator.counters import Undo as CountersUndo
from drakit.allocator.errors import Fatal, GaveUp
from drakit.allocator.outcome import Budget
from drakit.allocator.problem import MAX_RESULTS, Alternative, Problem
from drakit.allocator.selection import DerivedFault
from drakit.allocator.symmetry import Symmetry

__all__ = ["Choice", "Search"]

PLAIN_STEPS = 8  # a plain descent may take this many steps more than it needs; tests set it low to cut from the start
_FAIL: Final = 1
_TOO_MANY: Final = 2  # upstream's size-limit signal: give up this alternative, not only this device


class Choice:
    """A device given to an alternative."""

    __slots__ = ("alternative", "consumed", "number")

    def __init__(self, number: int, alternative: Alternative, consumed: Consumed | None) -> None:
        self.number = number
        self.alternative = alternative
        self.consumed = consumed  # only for shares of multi-allocatable devices


class _Frame:
    """A point to come back to: the next device of an alternative, or (alternative is None) the next alternative."""

    __slots__ = ("alternative", "avail", "exceeded", "k", "key", "slot", "tried", "undo", "which")

    def __init__(self, slot: int, which: int, k: int, alternative: Alternative | None, avail: int) -> None:
        self.slot = slot
        self.which = which
        self.k = k
        self.alternative = alternative
        self.avail = avail
        self.exceeded = True
        self.tried = -1
        self.undo: tuple[CountersUndo | None, PoolCounters | None, int] = (None, None, 0)
        self.key: object = None


class Search:
    def __init__(self, problem: Problem, budget: Budget) -> None:
        self.problem = problem
        self.slots = problem.slots
        self.steps = 0
        self._budget = budget
        self._next_look = 64  # at the clock, in steps
        self._deadline = budget.clock() + budget.seconds if budget.clock is not None else 0.0
        self.results: list[list[Choice]] = [[] for _ in problem.claims]
        self.taken = [0] * len(problem.claims)  # per claim: devices in exclusive use by this attempt
        self.taken_any = 0
        self.shares: dict[int, list[dict[str, int]]] = {}  # capacity taken by this attempt
        self.chosen: dict[int, int] = {}  # slot -> alternative
        self.blocked = 0
        for counters in problem.counters:
            self.blocked |= counters.blocked
        self.counters_of = {n: counters for counters in problem.counters for n in counters.consumes}
        self._clear_after = self._find_hazards()
        self._bounds: Bounds | None = None
        self._symmetry: Symmetry | None = None
        self._plain_steps = PLAIN_STEPS + 2 * sum(min(a.count for a in slot.alternatives) for slot in self.slots)
        self._failed: set[object] = set()

    # Hazards

    def _find_hazards(self) -> list[int]:
        """For each slot, the first later slot that could end in a fatal error (or the number of slots)."""
        dangerous = [any(_dangerous(alternative) for alternative in slot.alternatives) for slot in self.slots]
        ends, end = [0] * len(self.slots), len(self.slots)
        for index in range(len(self.slots) - 1, -1, -1):
            ends[index] = end
            if dangerous[index]:
                end = index
        self._prunable = not (any(dangerous) and self._may_exceed())
        return ends

    def _may_exceed(self) -> bool:
        """Whether some choice of alternatives asks for more devices than a claim can hold."""
        most: dict[int, int] = {}
        for slot in self.slots:
            most[slot.claim_index] = most.get(slot.claim_index, 0) + max(a.count for a in slot.alternatives)
        return any(count > MAX_RESULTS for count in most.values())

    # The walk

    def run(self) -> bool:
        """True with `results` filled, or False. Raises Fatal or GaveUp."""
        stack: list[_Frame] = []
        slot, which, k, start = 0, -1, 0, 0
        while True:
            # Entering a position.
            if slot == len(self.slots):
                return True
            frame: _Frame | None = None
            outcome = 0
            self._step()
            current = self.slots[slot]
            if which < 0 and current.is_list:
                frame = _Frame(slot, -1, 0, None, 0)
            else:
                alternative = current.alternatives[max(which, 0)]
                if alternative.all_mode and not alternative.devices:
                    outcome = _FAIL
                elif k >= alternative.count:
                    slot, which, k, start = slot + 1, -1, 0, 0
                    continue
                elif len(self.results[current.claim_index]) + alternative.count - k > MAX_RESULTS:
                    outcome = _TOO_MANY
                else:
                    frame = self._enter(slot, which, k, start, alternative)
                    if frame is None:
                        outcome = _FAIL
            if frame is not None:
                stack.append(frame)
            # Going on from the topmost frame, or back.
            came_from = slot
            while True:
                if outcome and not stack:
                    return False
                frame = stack[-1]
                if outcome:
                    if self.slots[frame.slot].claim_index != self.slots[came_from].claim_index:
                        outcome = _FAIL  # a size signal does not cross claims
                    outcome = self._came_back(frame, outcome)
                step = None if outcome else self._advance(frame)
                if step is not None:
                    slot, which, k, start = step
                    break
                if not outcome:
                    outcome = self._exhausted(frame)
                came_from = frame.slot
                stack.pop()

    def _step(self, effort: int = 1) -> None:
        self.steps += effort
        if self.steps > self._budget.steps:
            raise GaveUp(self.steps)
        if self.steps >= self._next_look and self._budget.clock is not None:
            self._next_look = self.steps + 64
            if self._budget.clock() > self._deadline:
                raise GaveUp(self.steps)

    def _enter(self, slot: int, which: int, k: int, start: int, alternative: Alternative) -> _Frame | None:
        """A frame with the devices to try for the k-th device, or None when none can do."""
        if alternative.all_mode:
            return _Frame(slot, which, k, alternative, 1 << alternative.devices[k])
        avail = self.available(alternative, slot) >> start << start
        hazards = 0
        if alternative.hazards:
            hazards = (alternative.hazards & ~self._in_use(alternative)) >> start << start
        clear = not hazards and not alternative.doubtful and self._prunable
        if clear and avail.bit_count() < alternative.count - k:
            return None
        frame = _Frame(slot, which, k, alternative, avail | hazards)
        if self.steps > self._plain_steps and clear:
            if self._clear_after[slot] == len(self.slots):
                frame.key = self.symmetry().state(slot, alternative, k, start)
                if frame.key in self._failed:
                    return None
            if not self._narrow(frame):
                return None
        return frame

    def _in_use(self, alternative: Alternative) -> int:
        return self.taken[alternative.slot.claim_index] if alternative.admin else self.taken_any

    def available(self, alternative: Alternative, slot: int) -> int:
        """Candidates that nothing chosen so far rules out."""
        mask = alternative.mask & ~self._in_use(alternative)
        if self.blocked:
            # Another share of a device that this attempt uses draws no counters.
            mask &= ~self.blocked | self._shared_again()
        for constraint, groups in zip(alternative.constraints, alternative.groups, strict=True):
            if not constraint.stack:
                continue
            state = constraint.stack[-1]
            if constraint.is_match:
                sharing = alternative.doubtful
                for element in state:
                    sharing |= groups.get(element, 0)
                mask &= sharing
            else:
                for element in state:
                    mask &= ~groups.get(element, 0) | alternative.doubtful
        return mask

    def _shared_again(self) -> int:
        mask = self.problem.shareable & self.problem.shared
        for number in self.shares:
            mask |= 1 << number
        return mask

    def _advance(self, frame: _Frame) -> tuple[int, int, int, int] | None:
        """Where to go next from this frame; None when it has nothing left."""
        alternative = frame.alternative
        if alternative is None:
            frame.which += 1
            if frame.which < len(self.slots[frame.slot].alternatives):
                self.chosen[frame.slot] = frame.which
                return frame.slot, frame.which, 0, 0
            return None
        while frame.avail:
            low = frame.avail & -frame.avail
            frame.avail ^= low
            number = low.bit_length() - 1
            if low & alternative.hazards:
                raise self.problem.fault(alternative, number)
            self._step()
            if self._take(alternative, number, frame):
                frame.tried = number
                return frame.slot, frame.which, frame.k + 1, number + 1
        return None

    def _came_back(self, frame: _Frame, outcome: int) -> int:
        """A try from this frame ended badly: undo it. Returns an outcome to pass on, or 0 to go on from here."""
        if frame.alternative is None:
            if outcome == _FAIL:
                frame.exceeded = False
            return 0
        self._put_back(frame)
        if outcome == _TOO_MANY:
            return _TOO_MANY
        if self.steps > self._plain_steps and not frame.alternative.all_mode and self._is_clear(frame):
            self._skip_equals(frame)
            if frame.avail and not self._narrow(frame):
                frame.avail = 0
        return 0

    def _exhausted(self, frame: _Frame) -> int:
        if frame.alternative is None:
            return _TOO_MANY if frame.exceeded else _FAIL
        if frame.key is not None:
            self._failed.add(frame.key)
        return _FAIL

    # Cutting

    def _is_clear(self, frame: _Frame) -> bool:
        alternative = frame.alternative
        assert alternative is not None
        return self._prunable and not (frame.avail & alternative.hazards) and not alternative.doubtful

    def bounds(self) -> Bounds:
        if self._bounds is None:
            self._bounds = Bounds(self)
        return self._bounds

    def symmetry(self) -> Symmetry:
        if self._symmetry is None:
            self._symmetry = Symmetry(self)
        return self._symmetry

    def _narrow(self, frame: _Frame) -> bool:
        """Drop devices that cannot lead to a solution; False when none is left or too few."""
        assert frame.alternative is not None
        self._step()
        need = frame.alternative.count - frame.k
        frame.avail = self.bounds().narrow(
            frame.slot, frame.alternative, need, frame.avail, self._clear_after[frame.slot]
        )
        return frame.avail.bit_count() >= need

    def _skip_equals(self, frame: _Frame) -> None:
        if self._clear_after[frame.slot] == len(self.slots):
            frame.avail &= ~self.symmetry().equals(frame.tried)

    # Taking devices

    def _take(self, alternative: Alternative, number: int, frame: _Frame) -> bool:
        """Choose the device if nothing speaks against it; what was changed is noted in the frame."""
        bit = 1 << number
        shareable = bool(self.problem.shareable & bit)
        if alternative.all_mode and (
            not alternative.usable & bit
            or (not shareable and self._in_use(alternative) & bit)
            or (self.blocked & bit and not self._shared_again() & bit)
        ):
            return False
        consumed = self._consumed(alternative, number) if shareable or alternative.all_mode else None
        fits = consumed is None or consumed.fits(self.held_capacity(number), *self.shares.get(number, ()))
        # What mode All cannot have because of a constraint is an error, whatever is left of the device.
        if not fits and not alternative.all_mode:
            return False
        if not self._add_to_constraints(alternative, number):
            if alternative.all_mode:
                device = self.problem.view.device_id(number)
                claim = alternative.slot.claim_name
                raise Fatal(
                    f"claim {claim}, request {alternative.name}: cannot add device {device} because a claim constraint "
                    "would not be satisfied",
                    "constraint",
                    claim=claim,
                    request=alternative.name,
                    device=device,
                )
            return False
        if not fits:
            self._remove_from_constraints(alternative)
            return False
        consumed = consumed if shareable else None
        claim_index = alternative.slot.claim_index
        undo: CountersUndo | None = None
        counters = self.counters_of.get(number)
        blocked = self.blocked
        if counters is not None and not (shareable and self._shared_again() & bit):
            undo = counters.take(number)
            self.blocked = self.blocked & ~undo[2] | counters.blocked
        else:
            counters = None
        if consumed is not None:
            self.shares.setdefault(number, []).append(dict(consumed.amounts))
        elif not self.taken[claim_index] & bit:
            self.taken[claim_index] |= bit
            self.taken_any |= bit
        frame.undo = (undo, counters, blocked)
        self.results[claim_index].append(Choice(number, alternative, consumed))
        return True

    def _put_back(self, frame: _Frame) -> None:
        assert frame.alternative is not None
        claim_index = frame.alternative.slot.claim_index
        choice = self.results[claim_index].pop()
        undo, counters, blocked = frame.undo
        if counters is not None and undo is not None:
            counters.put_back(undo)
            self.blocked = blocked
        if choice.consumed is not None:
            self.shares[choice.number].pop()
            if not self.shares[choice.number]:
                del self.shares[choice.number]
        else:
            self.taken[claim_index] &= ~(1 << choice.number)
            self.taken_any = 0
            for mask in self.taken:
                self.taken_any |= mask
        self._remove_from_constraints(frame.alternative)

    def _consumed(self, alternative: Alternative, number: int) -> Consumed | None:
        if alternative.capacity is None:
            return None
        verdict = alternative.capacity.verdict(self.problem.shapes[number])
        assert isinstance(verdict, Consumed)
        return verdict

    def held_capacity(self, number: int) -> dict[str, int]:
        if not self.problem.shared >> number & 1:
            return {}
        pool, position = self.problem.view.locate(number)
        return dict(self.problem.allocated.pools[pool.key].capacity(pool.layout.names[position]))

    def _add_to_constraints(self, alternative: Alternative, number: int) -> bool:
        for which, constraint in enumerate(alternative.constraints):
            elements = self.problem.elements(alternative, which, number)
            if isinstance(elements, DerivedFault):
                for added in alternative.constraints[:which]:
                    added.remove()
                raise self.problem.derived_fault(alternative, number)
            if elements is None or not constraint.add(elements):
                for added in alternative.constraints[:which]:
                    added.remove()
                return False
        return True

    def _remove_from_constraints(self, alternative: Alternative) -> None:
        for constraint in alternative.constraints:
            constraint.remove()


def _dangerous(alternative: Alternative) -> bool:
    if alternative.all_mode and alternative.constraints:
        return True
    return bool(alternative.hazards or alternative.doubtful)
