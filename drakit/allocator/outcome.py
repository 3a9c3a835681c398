"""What `allocate` answers: an Allocation, or a Failure that can explain itself.

"No device fits" is a result, not an exception. The explanation is built only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from drakit.allocator.allocated import OPERATOR, Asker

__all__ = [
    "Allocation",
    "Blocker",
    "Budget",
    "ClaimReason",
    "Explanation",
    "Failure",
    "Held",
    "RequestReason",
    "SelectorStep",
    "Suggestion",
]


@dataclass(frozen=True, slots=True)
class Budget:
    """How long one call may search. Whichever limit is reached first ends it with a `gave-up` Failure.

    The allocator reads no clock of its own: `seconds` counts only when the caller passes `clock` (for example
    `time.monotonic` or a component's `clock.monotonic`). `steps` alone is about a second of work.
    """

    seconds: float = 1.0
    steps: int = 60_000
    clock: Callable[[], float] | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """The devices that Kubernetes would pick on `node`: one plain v1 AllocationResult per claim, in the claims' order."""

    node: str
    results: tuple[dict[str, Any], ...]
    steps: int = 0

    def __bool__(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Held:
    """A device that other claims hold: `holders` are `namespace/name` of claims, or uids where the name is not known."""

    device: str
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SelectorStep:
    """One conjunct of one selector: how many devices reached it, and what the rejected ones had instead."""

    source: str  # "class gpu" or "request"
    index: int  # selector number
    expression: str
    conjunct: str
    passed: int
    rejected: int
    values: tuple[tuple[str, int], ...] = ()  # (what the rejected devices had, how many), most frequent first
    error: str = ""  # the first runtime error, when the conjunct failed on a device


@dataclass(frozen=True, slots=True)
class RequestReason:
    """What stands between one request (or subrequest) and its devices on this node."""

    request: str
    wanted: int | Literal["All"]
    on_node: int  # devices that the node can reach
    in_class: int  # left by the class selectors
    selected: int  # left by the request's selectors too
    steps: tuple[SelectorStep, ...] = ()
    busy: tuple[Held, ...] = ()
    tainted: tuple[tuple[str, str], ...] = ()  # (device, taint)
    short_of_capacity: tuple[tuple[str, str], ...] = ()  # (device, which capacity and why)
    short_of_counters: tuple[tuple[str, str], ...] = ()  # (device, counter set/counter: needed, left)
    incompatible: tuple[str, ...] = ()  # devices barred by compatibility groups
    unsupported: tuple[tuple[str, str], ...] = ()  # (device, which feature, node capability or attribute is missing)
    free: int = 0  # devices that this request alone could get


@dataclass(frozen=True, slots=True)
class ClaimReason:
    claim: str
    requests: tuple[RequestReason, ...]


@dataclass(frozen=True, slots=True)
class Blocker:
    """One cause, ready to be shown. `kind` is stable; `data` carries the figures behind `text`."""

    kind: str
    text: str
    claim: str = ""
    request: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A smallest change after which the claims fit on the node, verified by allocating again.

    `changes` are data for a tool (`allocator.changes` applies them): `op` names the change, the other keys its operands.
    """

    kind: str
    text: str
    changes: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    node: str
    summary: str
    claims: tuple[ClaimReason, ...]
    blockers: tuple[Blocker, ...]
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the claims cannot be had on `node`.

    kind        what a scheduler does
    none        the node is out: "cannot allocate all claims"
    invalid     the node is out, with `message` (invalid pools were seen)
    error       the attempt is over for all nodes: a claim, class or slice must be repaired
    gave-up     the budget is spent without an answer: retry later
    """

    kind: Literal["none", "invalid", "error", "gave-up"]
    node: str
    message: str
    steps: int = 0
    # The objects an error names: claim, request, class, pool, device, selector, slice, constraint, attribute.
    names: Mapping[str, str] = field(default_factory=dict)
    cause: str = ""  # the class of an error, e.g. "selector-runtime", "pool-incomplete"
    lacking: int = 0  # devices missing, each request taken by itself
    _explain: Callable[..., Explanation] | None = field(default=None, repr=False, compare=False)

    def __bool__(self) -> bool:
        return False

    def explain(self, asker: Asker = OPERATOR) -> Explanation:
        """The reasons, per claim and request, and verified suggestions. Costs further allocator runs: call it on demand."""
        if self._explain is None:
            blocker = Blocker(kind=self.cause or self.kind, text=self.message, data=dict(self.names))
            return Explanation(self.node, self.message, (), (blocker,), ())
        return self._explain(asker=asker)
