"""Device selectors and derived attributes: the environment in which DRA evaluates CEL.

`stored` is how the scheduler runs what the API server accepted: everything any version knew, attributes typed
dyn. `new` is how the API server accepts: compatibility version 1.36, by the feature gates.
Rules: kubernetes/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

from drakit.api.gates import FeatureGates
from drakit.api.quantity import Quantity, QuantityError
from drakit.cel import types as t
from drakit.cel.environment import Environment, StructType, kubernetes_base
from drakit.cel.errors import CelError, CompileError, EvaluationError, ProgramError
from drakit.cel.explain import Conjunct, Explanation, explain
from drakit.cel.library import lists
from drakit.cel.library.kubernetes import QuantityValue, Semver, parse_semver
from drakit.cel.macros import BIND
from drakit.cel.program import Limits, Program, Result, compile_checked, link
from drakit.cel.types import Type
from drakit.cel.values import EMPTY_MAP, DefaultMap, Fault, UInt, type_name

__all__ = [
    "ApiExpressionChecker", "Check", "Conjunct", "Derived", "DeviceInput", "Explanation", "Features", "Selector",
    "compile_derived", "compile_selector", "device_environment",
]  # fmt: skip

MAX_COST = 1_000_000
MAX_SIZE_UNKNOWN = 2**64 - 1
_LIMITS = Limits(cost=MAX_COST)
_MAX_ENTRIES = 32  # attributes and capacities of a device
_DOMAIN, _ID, _DRIVER, _VALUE = 63, 32, 63, 64
_LIST_VALUES = 48  # values that list attributes may hold in total

Kind = Literal["stored", "new"]


class Features(NamedTuple):
    """The feature gates that change what expressions may use."""

    consumable_capacity: bool = True
    list_type_attributes: bool = False

    @classmethod
    def of(cls, gates: FeatureGates | None) -> Features:
        if gates is None:
            return cls()
        return cls(gates.enabled("DRAConsumableCapacity"), gates.enabled("DRAListTypeAttributes"))


@lru_cache(maxsize=16)
def device_environment(kind: Kind = "stored", features: Features = Features()) -> Environment:  # noqa: B008  # immutable
    """The environment with the variable `device`."""
    if kind == "stored":
        features = Features(True, True)
    attribute = t.DYN if features.list_type_attributes else t.ANY
    fields: dict[str, Type] = {
        "driver": t.STRING,
        "attributes": t.map_of(t.STRING, t.map_of(t.STRING, attribute)),
        "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.struct("kubernetes.Quantity"))),
    }
    if features.consumable_capacity:
        fields["allowMultipleAllocations"] = t.BOOL
    stored = kind == "stored"
    env = kubernetes_base(includes=stored).extend(
        variables={"device": t.struct("kubernetes.DRADevice")},
        functions=lists.INCLUDES if features.list_type_attributes and not stored else (),
        structs=[StructType("kubernetes.DRADevice", fields)],
        macros=BIND,
    )
    largest = max(_VALUE, _LIST_VALUES) if features.list_type_attributes else _VALUE

    def size_of(path: tuple[str, ...]) -> int | None:
        return _size(path, largest)

    total = frozenset({("device", "attributes"), ("device", "capacity")})
    return replace(env, size_of=size_of, attribute_activation=True, total_paths=total)


def _size(path: tuple[str, ...], attribute: int) -> int | None:
    """The largest size of what stands at a path under `device`."""
    if path[0] != "device":
        return None
    if len(path) == 1:
        return 0  # the object itself: upstream declares no size for it
    sizes = {"driver": _DRIVER, "allowMultipleAllocations": 1}
    if path[1] in sizes:
        return sizes[path[1]] if len(path) == 2 else None
    if path[1] not in ("attributes", "capacity"):
        return None
    return _map_size(path[2:], attribute if path[1] == "attributes" else None)


def _map_size(rest: tuple[str, ...], attribute: int | None) -> int | None:
    if not rest:
        return _MAX_ENTRIES
    if rest[0] == "@keys":
        return _DOMAIN if len(rest) == 1 else None
    if rest[0] not in ("@values", "@items"):
        return None
    if len(rest) == 1:
        return _MAX_ENTRIES
    if rest[1] == "@keys":
        return _ID if len(rest) == 2 else None
    if len(rest) == 2 and (rest[1] in ("@values", "@items") or attribute is not None):
        return attribute if attribute is not None else MAX_SIZE_UNKNOWN
    return None


# -- input ----------------------------------------------------------------------------------------------------


class DeviceInput:
    """The activation of one device, built once and reused for every expression.

    `device` is a plain resource.k8s.io/v1 Device. A device that API validation would refuse is accepted here and
    fails when it is used, with upstream's text.
    """

    __slots__ = ("device", "driver", "error", "variables")

    def __init__(self, driver: str, device: Mapping[str, Any]) -> None:
        self.driver = driver
        self.error: str | None = None
        self.variables: dict[str, Any] = {}
        try:
            attributes = _by_domain(driver, device.get("attributes"), _attribute)
            capacity = _by_domain(driver, device.get("capacity"), _capacity)
        except Fault as fault:
            self.error = str(fault)
            return
        self.device = self.variables["device"] = {
            "driver": driver,
            "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
            "attributes": attributes,
            "capacity": capacity,
        }


def _by_domain(driver: str, named: Mapping[str, Any] | None, read: Any) -> DefaultMap:
    out = DefaultMap()
    for name, raw in (named or EMPTY_MAP).items():
        domain, slash, id = name.partition("/")
        if not slash:
            domain, id = driver, name
        out.setdefault(domain, {})[id] = read(name, raw)
    return out


def _attribute(name: str, raw: Mapping[str, Any]) -> Any:
    for field in ("ints", "bools", "strings"):
        if raw.get(field) is not None:
            return list(raw[field])
    if raw.get("versions") is not None:
        return [_version(name, text) for text in raw["versions"]]
    for field in ("int", "bool", "string"):
        if raw.get(field) is not None:
            return raw[field]
    if raw.get("version") is not None:
        return _version(name, raw["version"])
    raise Fault(f"attribute {name}: unsupported attribute value")


def _version(name: str, text: str) -> Semver:
    try:
        return parse_semver(text)
    except Fault as fault:
        raise Fault(f"attribute {name}: parse semantic version: {fault}") from None


def _capacity(name: str, raw: Mapping[str, Any]) -> QuantityValue:
    try:
        return QuantityValue(Quantity.parse(str(raw.get("value", "0"))))
    except QuantityError as error:
        raise Fault(f"capacity {name}: {error}") from None


# -- selectors ------------------------------------------------------------------------------------------------


class Selector:
    """A compiled device selector."""

    __slots__ = ("expression", "matches", "max_cost", "program")

    # True or False; raises EvaluationError (with upstream's text) when the expression fails on this device.
    # It is the generated function itself: a method around it would take as long as a typical selector.
    matches: Callable[[DeviceInput], bool]

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression = program.expression
        self.max_cost = program.max_cost
        self.matches = program.fast or partial(_decide, program)

    def run(self, device: DeviceInput) -> Result:
        """The exact evaluation with its cost: what tests compare and metrics report."""
        if device.error is not None:
            return Result(None, device.error, 0)
        result = self.program.run(device.variables)
        if result.error is None and result.value.__class__ is not bool:
            return Result(None, not_bool(result.value), result.cost)
        return result

    def explain(self, device: DeviceInput) -> Explanation:
        """Which conjunct of `a && b && c` decided, with the values it saw."""
        if device.error is not None:
            return Explanation(None, device.error, None, ())
        return explain(self.program, device.variables)


def _exact(program: Program, device: DeviceInput) -> Any:
    if device.error is not None:
        raise EvaluationError(device.error)
    result = program.run(device.variables)
    if result.error is not None:
        raise EvaluationError(result.error, result.cost)
    return result.value


def _decide(program: Program, device: DeviceInput) -> bool:
    value = _exact(program, device)
    if value is True or value is False:
        return value
    raise EvaluationError(not_bool(value))


def not_bool(value: Any) -> str:
    name = type_name(value)
    return f"CEL result of type {name} could not be converted to bool: {_native_error(value, name)}"


def _native_error(value: Any, name: str) -> str:
    if value.__class__ is int:
        return "unsupported type conversion from 'int' to bool"
    if value.__class__ is UInt:
        return "unsupported type conversion from 'uint' to bool"
    if value.__class__ is str:
        return "unsupported native conversion from string to 'bool'"
    if value.__class__ is float:
        return "type conversion error from Double to 'bool'"
    if value.__class__ is bytes:
        return "type conversion error from Bytes to 'bool'"
    if value is None:
        return "type conversion error from 'null_type' to 'bool'"
    short = {
        "kubernetes.Quantity": "'Quantity'",
        "kubernetes.Semver": "'Semver'",
        "kubernetes.URL": "'URL'",
        "net.IP": "'IP'",
        "net.CIDR": "'CIDR'",
    }
    return f"type conversion error from {short.get(name, name)} to 'bool'"


class Derived:
    """A compiled derived attribute."""

    __slots__ = ("expression", "max_cost", "program")

    def __init__(self, program: Program) -> None:
        self.program = program
        self.expression = program.expression
        self.max_cost = program.max_cost

    def value(self, device: DeviceInput) -> dict[str, Any]:
        """A plain DeviceAttribute, e.g. {"string": "a"} or {"ints": [1, 2]}; raises EvaluationError."""
        return to_attribute((self.program.fast or partial(_exact, self.program))(device))


_ATTRIBUTE_FIELDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Semver: "version"}


def to_attribute(value: Any) -> dict[str, Any]:
    """A value as a plain DeviceAttribute."""
    field = _ATTRIBUTE_FIELDS.get(value.__class__)
    if field is not None:
        return {field: str(value) if field == "version" else value}
    if value.__class__ is not list:
        raise EvaluationError(f"unsupported CEL return type: {_go_native(value)}")
    if not value:
        return {"strings": []}
    field = _ATTRIBUTE_FIELDS.get(value[0].__class__)
    if field is None:
        raise EvaluationError(f"unsupported list element type: {_go_native(value[0])}")
    for i, item in enumerate(value):
        if item.__class__ is not value[0].__class__:
            expected = "semver" if field == "version" else field
            raise EvaluationError(f"expected list element at index {i} to be {expected}, got {_go_native(item)}")
    return {field + "s": [str(item) if field == "version" else item for item in value]}


_GO_NATIVE = {
    "null_type": "structpb.NullValue", "bool": "bool", "int": "int64", "uint": "uint64", "double": "float64", "string": "string",
    "bytes": "[]uint8", "google.protobuf.Duration": "time.Duration", "google.protobuf.Timestamp": "time.Time", "type": "string",
    "map": "map[ref.Val]ref.Val", "kubernetes.Quantity": "*resource.Quantity", "kubernetes.Semver": "semver.Version",
    "kubernetes.URL": "*url.URL", "net.IP": "netip.Addr", "net.CIDR": "netip.Prefix", "list": "[]ref.Val",
}  # fmt: skip


def _go_native(value: Any) -> str:
    if value.__class__ is list and value and value[0].__class__ in _ATTRIBUTE_FIELDS:
        return {bool: "[]bool", int: "[]int64", str: "[]string", Semver: "[]cel.Semver"}[value[0].__class__]
    name = type_name(value)
    return _GO_NATIVE.get(name, name)


# -- compiling ------------------------------------------------------------------------------------------------

_SCALARS = "must evaluate to a primitive scalar (string, integer, boolean, semver)"


def _check_selector_type(result: Type, env: Environment) -> None:
    attribute = env.structs["kubernetes.DRADevice"].fields["attributes"].params[1].params[1]
    if not (result.same(t.BOOL) or result.same(attribute)):
        raise CompileError(f"must evaluate to bool or the unknown type, not {result}")


def _check_derived_type(result: Type, lists_allowed: bool) -> None:
    allowed = ("bool", "int", "string", "any", "dyn")

    def scalar(typ: Type) -> bool:
        return (typ.kind in allowed and not typ.nullable) or typ.name == "kubernetes.Semver"

    if scalar(result) or (lists_allowed and result.kind == "list" and scalar(result.params[0])):
        return
    extra = " or a list of these scalars" if lists_allowed else ""
    raise CompileError(f"{_SCALARS}{extra}, not {result}")


def _compile(expression: str, kind: Kind, features: Features, derived: bool) -> Program:
    env = device_environment(kind, features)
    try:
        checked = compile_checked(expression, env)
    except CompileError as error:
        raise CompileError(f"compilation failed: {error}", error.issues) from None
    if derived:
        _check_derived_type(checked.result, features.list_type_attributes or kind == "stored")
    else:
        _check_selector_type(checked.result, env)
    made: list[Program] = []

    def fallback(device: DeviceInput) -> Any:
        return (_exact if derived else _decide)(made[0], device)

    try:
        made.append(link(expression, env, checked, _LIMITS, fallback, decides=not derived))
        return made[0]
    except ProgramError as error:
        raise ProgramError(f"program instantiation failed: {error}") from None


@lru_cache(maxsize=4096)
def _cached(expression: str, kind: Kind, features: Features, derived: bool) -> Program | CelError:
    try:
        return _compile(expression, kind, features, derived)
    except CelError as error:
        return error


def _program(expression: str, kind: Kind, gates: FeatureGates | None, derived: bool) -> Program:
    features = Features() if kind == "stored" and not derived else Features.of(gates)
    found = _cached(expression, kind, features, derived)
    if isinstance(found, CelError):
        raise found.with_traceback(None)
    return found


def compile_selector(expression: str, *, kind: Kind = "stored", gates: FeatureGates | None = None) -> Selector:
    """Raises CompileError or ProgramError. Compiled selectors are cached: compiling again is a lookup."""
    return Selector(_program(expression, kind, gates, False))


def compile_derived(expression: str, *, gates: FeatureGates | None = None) -> Derived:
    """As compile_selector, for an expression whose value becomes an attribute."""
    return Derived(_program(expression, "stored", gates, True))


@dataclass(frozen=True)
class Check:
    """What API validation needs to know of an expression; `error_type` is "" when it is good."""

    error_type: Literal["", "invalid", "internal"]
    error: str
    max_cost: int


class ApiExpressionChecker:
    """`drakit.api`'s ExpressionChecker: compiles as the API server does when it accepts an expression."""

    def check_selector(self, expression: str, *, stored: bool, gates: FeatureGates) -> Check:
        return self._check(expression, stored, gates, derived=False)

    def check_derived(self, expression: str, *, stored: bool, gates: FeatureGates) -> Check:
        return self._check(expression, stored, gates, derived=True)

    def _check(self, expression: str, stored: bool, gates: FeatureGates, derived: bool) -> Check:
        try:
            program = _program(expression, "stored" if stored else "new", gates, derived)
        except CompileError as error:
            return Check("invalid", str(error), 2**64 - 1)
        except ProgramError as error:
            return Check("internal", str(error), 2**64 - 1)
        return Check("", "", program.max_cost)
