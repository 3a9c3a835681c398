"""How fast the allocator is: the hard vectors beside Kubernetes, and the growth of the cost of a pod with the cluster.

python -m bench.allocator            both tables
python -m bench.allocator hard       each hard vector beside kubernetes_ms
python -m bench.allocator growth     10,000 one-device pods on 1,000, 5,000 and 20,000 nodes x 8 devices, with memory
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Sequence

from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice

from drakit.allocator import Allocated, Allocation, Budget, Features, Inventory, allocate, feasible_nodes
from drakit.api.typed import from_plain
from tests.vectors import vector_files
from tests.vectors.allocator import Scenario, difference
from tests.vectors.rows import read

NODES = (1_000, 5_000, 20_000)
DEVICES = 8
PODS = 10_000


def hard() -> bool:
    """Best of three, because a first run also compiles the selectors; the first is shown as well."""
    print(f"{'hard vector':<48}{'kubernetes ms':>14}{'first ms':>10}{'best ms':>10}{'steps':>8}  answer")
    total_first = total_best = 0.0
    agree = True
    for path in vector_files("allocator/hard.jsonl.gz", "allocator.jsonl"):
        for vector in read(path):
            times = []
            for _ in range(3):
                scenario = Scenario(vector)
                begin = time.perf_counter()
                answer = scenario.allocate(Budget(clock=time.monotonic))
                times.append((time.perf_counter() - begin) * 1000)
            text = difference(vector, answer)
            agree = agree and not text
            total_first += times[0]
            total_best += min(times)
            shown = f"{vector.get('kubernetes_ms', 0):.1f}" + ("*" if vector.get("kubernetes_gave_up") else "")
            print(
                f"{vector['id']:<48}{shown:>14}{times[0]:>10.2f}{min(times):>10.2f}{answer.steps:>8}  {text or vector['outcome']}"
            )
    print(f"{'all':<48}{'':>14}{total_first:>10.2f}{total_best:>10.2f}          (* gave up at 10 s)")
    return agree


def rss_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def slice_of(node: int, *, unique: bool) -> ResourceSlice:
    devices = []
    for index in range(DEVICES):
        attributes = {
            "model": {"string": "H100"},
            "index": {"int": index},
            "driverVersion": {"version": "1.2.3"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 4:02x}"},
        }
        if unique:
            attributes["uuid"] = {"string": f"GPU-{node:06d}-{index}"}
        devices.append({"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}})
    name = f"node-{node:05d}"
    spec = {
        "driver": "gpu.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    return from_plain(ResourceSlice, {"metadata": {"name": f"{name}-gpu"}, "spec": spec})


def growth(nodes: int, *, unique: bool) -> dict[str, float]:
    """One process, no API server: choose a node, allocate one device there, hold it; for every pod."""
    gc.collect()
    base = rss_mb()
    begin = time.perf_counter()
    inventory, allocated = Inventory(), Allocated()
    inventory.set_class(
        from_plain(
            DeviceClass,
            {
                "metadata": {"name": "gpu"},
                "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
            },
        )
    )
    for number in range(nodes):
        inventory.set_slice(slice_of(number, unique=unique))
        inventory.set_node(from_plain(Node, {"metadata": {"name": f"node-{number:05d}"}}))
    loaded = time.perf_counter() - begin
    memory_loaded = rss_mb() - base
    selector = 'device.attributes["gpu.example.com"].model == "H100"'
    pods, room = PODS, nodes * DEVICES
    claims = [
        from_plain(
            ResourceClaim,
            {
                "metadata": {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"},
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "gpu",
                                "exactly": {
                                    "deviceClassName": "gpu",
                                    "allocationMode": "ExactCount",
                                    "count": 1,
                                    "selectors": [{"cel": {"expression": selector}}],
                                },
                            }
                        ]
                    }
                },
            },
        )
        for number in range(pods)
    ]
    features, budget = Features(), Budget(clock=time.monotonic)
    last, first_ms = "", 0.0
    gc.collect()
    begin = time.perf_counter()
    for number, claim in enumerate(claims):
        if number >= room:
            allocated.forget(f"uid-{number - room}")  # the cluster is full: the oldest pod ends
        # Spread over the nodes as a scheduler does: start behind the node that was used last.
        name = next(feasible_nodes(inventory, allocated, [claim], features=features).after(last))
        outcome = allocate(inventory, allocated, inventory.nodes[name], [claim], features=features, budget=budget)
        assert isinstance(outcome, Allocation), outcome
        allocated.assume(f"uid-{number}", outcome.results[0])
        last = name
        if not number:
            first_ms = (time.perf_counter() - begin) * 1000
    spent = time.perf_counter() - begin
    return {
        "nodes": nodes,
        "pods": pods,
        "us_per_pod": spent / pods * 1e6,
        "first_ms": first_ms,
        "load_s": loaded,
        "memory_mb": memory_loaded,
        "memory_end_mb": rss_mb() - base,
        "rss_mb": rss_mb(),
    }


def growth_table() -> None:
    for unique in (False, True):
        what = "every device has its own attributes (a uuid)" if unique else "devices look alike"
        print(f"\n10,000 one-device pods, choice of the node included; {what}")
        print(
            f"{'nodes':>7}{'devices':>9}{'us a pod':>10}{'x':>6}{'first pod ms':>14}{'load s':>8}{'inventory MB':>14}{'RSS MB at end':>15}"
        )
        base = 0.0
        for nodes in NODES:
            # A fresh process each, so that the memory figure is this size's own.
            command = [
                sys.executable,
                "-m",
                "bench.allocator",
                "one",
                "--nodes",
                str(nodes),
                *(["--unique"] if unique else []),
            ]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            base = base or row["us_per_pod"]
            print(
                f"{nodes:>7}{nodes * DEVICES:>9}{row['us_per_pod']:>10.1f}{row['us_per_pod'] / base:>6.2f}"
                f"{row['first_ms']:>14.1f}{row['load_s']:>8.2f}{row['memory_mb']:>14.0f}{row['rss_mb']:>15.0f}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.allocator", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="?", default="all", choices=("all", "hard", "growth", "one"))
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--unique", action="store_true")
    args = parser.parse_args(argv)
    if args.what == "one":
        print(json.dumps(growth(args.nodes, unique=args.unique)))
        return 0
    agree = hard() if args.what in ("all", "hard") else True
    if args.what in ("all", "growth"):
        growth_table()
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
