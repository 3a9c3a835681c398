"""One async client for every component: verbs, watches, cached informers, work queues, leader election; over HTTP or in process.

Start with `client.Client`; `transport.Transport` is the seam to a server. `http` and `kubeconfig` are imported only where
a real cluster is meant.
"""

from drakit.client.client import Client, Event, Listing, retry_on_conflict
from drakit.client.events import EventRecorder, reference_to
from drakit.client.informers import Informer, Informers
from drakit.client.leases import LeaseLost, LeaseTimes, lead
from drakit.client.queue import WorkQueue
from drakit.client.resources import Resource, key_of, model_of, resource_of
from drakit.client.transport import Plain, Request, Response, Transport

__all__ = [
    "Client",
    "Event",
    "EventRecorder",
    "Informer",
    "Informers",
    "LeaseLost",
    "LeaseTimes",
    "Listing",
    "Plain",
    "Request",
    "Resource",
    "Response",
    "Transport",
    "WorkQueue",
    "key_of",
    "lead",
    "model_of",
    "reference_to",
    "resource_of",
    "retry_on_conflict",
]
