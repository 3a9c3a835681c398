"""A token bucket on a Clock: so many at once, so many a second after that."""

from __future__ import annotations

from drakit.clock import Clock

__all__ = ["TokenBucket"]

_ROUNDING = 1e-6


class TokenBucket:
    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock, self.per_second, self._burst = clock, per_second, burst
        self._tokens, self._at = float(burst), clock.monotonic()

    def take(self) -> float:
        """0 when there was a token; else the seconds until there is one."""
        self._refill()
        if self._tokens >= 1 - _ROUNDING:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self.per_second

    def reserve(self) -> float:
        """Takes a token, even one that is still to come: the seconds until it is there. For many that wait: each comes back once."""
        self._refill()
        self._tokens -= 1
        return max(0.0, -self._tokens / self.per_second)

    def give_back(self) -> None:
        """A token that was reserved is not needed after all."""
        self._tokens += 1

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.per_second)
        self._at = now
