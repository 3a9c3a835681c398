"""How fast the nodes of a zone may be emptied when they stop working (zone states of pkg/controller/nodelifecycle).

Told of one node at a time; pure. Many nodes of a zone down at once are more likely a broken network than broken nodes: a large zone
is then emptied slowly, a small one not at all. A zone that is down altogether is emptied as usual, unless all zones are.
"""

from __future__ import annotations

from collections import Counter

from drakit.controllers.objects import Plain, labels

__all__ = ["Zones", "zone_of"]

_PER_SECOND, _SLOWLY = 0.1, 0.01
_UNHEALTHY = 0.55  # share of nodes down
_LARGE = 50  # nodes; in zones up to this size nobody is evicted while too many are down
_EXCLUDED = "node.kubernetes.io/exclude-disruption"


def zone_of(node: Plain) -> str:
    of = labels(node)
    zone = of.get("failure-domain.beta.kubernetes.io/zone", of.get("topology.kubernetes.io/zone", ""))
    region = of.get("failure-domain.beta.kubernetes.io/region", of.get("topology.kubernetes.io/region", ""))
    return f"{region}:\0:{zone}" if region or zone else ""


class Zones:
    def __init__(self) -> None:
        self._of: dict[str, tuple[str, bool]] = {}  # node -> its zone, and whether it is up
        self._up: Counter[str] = Counter()
        self._size: Counter[str] = Counter()

    def put(self, name: str, node: Plain, *, up: bool) -> None:
        self.remove(name)
        if _EXCLUDED not in labels(node):
            zone = zone_of(node)
            self._of[name] = zone, up
            self._up[zone] += up
            self._size[zone] += 1

    def remove(self, name: str) -> None:
        zone, up = self._of.pop(name, ("", None))
        if up is not None:
            self._up[zone] -= up
            self._size[zone] -= 1

    @property
    def all_down(self) -> bool:
        return bool(self._of) and not self._up.total()

    def per_second(self, zone: str) -> float:
        """Nodes of the zone that may be emptied in a second."""
        size = self._size[zone]
        down = size - self._up[zone]
        if down > 2 and down < size and down / size >= _UNHEALTHY:
            return _SLOWLY if size > _LARGE else 0.0
        return _PER_SECOND
