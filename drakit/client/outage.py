"""A server that cannot be reached: said once for all the watches of a process, and once more when it answers again."""

from __future__ import annotations

import logging

from drakit.api.errors import StatusError

__all__ = ["LONGEST_WAIT", "Outage"]

log = logging.getLogger(__name__)

LONGEST_WAIT = 5.0  # seconds between tries of one watch: a server that is back should not have to wait for its clients


class Outage:
    def __init__(self) -> None:
        self._told = False

    def concerns(self, error: StatusError) -> bool:
        """Whether the server as a whole is away (and then it is told), not just something wrong with one request."""
        if error.code != 503:
            return False
        if not self._told:
            self._told = True
            log.warning("%s; trying again until it answers", error)
        return True

    def over(self) -> None:
        if self._told:
            self._told = False
            log.warning("the API server answers again")
