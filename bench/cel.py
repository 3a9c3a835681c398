"""Microseconds per evaluation of device selectors: this engine beside the three CEL libraries for Python, in one run.

The same expressions on the same devices. Each engine gets its activation ready-made where it has such a thing; the libraries know
no quantities and versions, so those selectors are measured for this engine only. `python -m bench.cel`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from drakit.cel.device import DeviceInput, Features, compile_selector, device_environment
from drakit.cel.program import compile as compile_cel

DOMAIN = "gpu.example.com"
SELECTORS = {
    "attributes": (
        f"device.attributes['{DOMAIN}'].model == 'A100' && device.attributes['{DOMAIN}'].numa >= 1 && device.attributes['{DOMAIN}'].healthy"
    ),
    "strings": (
        f"device.driver == '{DOMAIN}' && device.attributes['{DOMAIN}'].model in ['A100', 'H100'] "
        f"&& device.attributes['{DOMAIN}'].uuid.startsWith('GPU-')"
    ),
    "macro": f"has(device.attributes['{DOMAIN}'].numa) && [0, 1, 2].exists(n, device.attributes['{DOMAIN}'].numa == n)",
}
OURS_ONLY = {
    "quantity": f"device.capacity['{DOMAIN}'].memory.compareTo(quantity('40Gi')) >= 0",
    "version": f"device.attributes['{DOMAIN}'].driverVersion.isGreaterThan(semver('1.0.0'))",
}


def devices(count: int = 64) -> list[dict[str, Any]]:
    return [
        {
            "name": f"gpu-{i}",
            "attributes": {
                "model": {"string": "A100"},
                "numa": {"int": 1 + i % 2},
                "healthy": {"bool": True},
                "uuid": {"string": f"GPU-{i:08x}"},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for i in range(count)
    ]


def plain(device: dict[str, Any]) -> dict[str, Any]:
    """A device for engines that know only JSON."""
    values = {name: next(iter(raw.values())) for name, raw in device["attributes"].items()}
    return {"driver": DOMAIN, "attributes": {DOMAIN: values}}


def measure(call: Callable[[Any], Any], inputs: list[Any], *, seconds: float = 1.5) -> float:
    """Microseconds for one call, in the best of many rounds over all inputs: what the machine does besides stays out."""
    assert call(inputs[0]) is True, "every engine must agree that the selector matches"
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        for item in inputs:
            call(item)
        best = min(best, (time.perf_counter() - start) / len(inputs) * 1e6)
    return best


def ours(expression: str) -> float:
    return measure(compile_selector(expression).matches, [DeviceInput(DOMAIN, device) for device in devices()])


def cel_expr_python(expression: str) -> float:
    from cel_expr_python import cel

    env = cel.NewEnv(variables={"device": cel.Type.DYN})
    program = env.compile(expression)
    inputs = [env.Activation({"device": plain(device)}) for device in devices()]
    return measure(lambda activation: program.eval(activation).value(), inputs)


def common_expression_language(expression: str) -> float:
    import cel

    program = cel.compile(expression)
    return measure(program.execute, [cel.Context(variables={"device": plain(device)}) for device in devices()])


def cel_python(expression: str) -> float:
    import celpy

    env = celpy.Environment()
    program = env.program(env.compile(expression))
    inputs = [{"device": celpy.json_to_cel(plain(device))} for device in devices(8)]
    return measure(lambda activation: bool(program.evaluate(activation)), inputs)


def compile_time(expression: str) -> float:
    """The best of many, in microseconds; a changed constant keeps the cache out of it."""
    env = device_environment("stored", Features())
    best = float("inf")
    for i in range(150):
        text = f"{expression} && {i} >= 0"
        start = time.perf_counter()
        compile_cel(text, env)
        best = min(best, (time.perf_counter() - start) * 1e6)
    return best


def main() -> None:
    engines = {
        "drakit": ours,
        "cel-expr-python": cel_expr_python,
        "common-expression-language": common_expression_language,
        "cel-python": cel_python,
    }
    print("microseconds per evaluation, activation ready")
    print(f"{'selector':12}" + "".join(f"{name:>28}" for name in engines) + f"{'fastest other / drakit':>26}")
    for name, expression in SELECTORS.items():
        figures = [run(expression) for run in engines.values()]
        ratio = min(figures[1:]) / figures[0]
        print(f"{name:12}" + "".join(f"{figure:28.3f}" for figure in figures) + f"{ratio:25.1f}x")
    for name, expression in OURS_ONLY.items():
        print(f"{name:12}{ours(expression):28.3f}")
    expression = SELECTORS["attributes"] + " && " + OURS_ONLY["quantity"]
    print(f"compile time of a typical selector: {compile_time(expression):.0f} microseconds")
    start = time.perf_counter()
    for device in devices(512):
        DeviceInput(DOMAIN, device)
    print(f"activation of a device, built once: {(time.perf_counter() - start) / 512 * 1e6:.1f} microseconds")


if __name__ == "__main__":
    main()
