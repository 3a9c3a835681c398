"""What the page says and what there is."""

import re
from pathlib import Path

from drakit import client
from drakit.controllers.runner import CONTROLLERS, NAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_controller_is_on_the_page() -> None:
    named = set(re.findall(r"`([a-z-]+-controller)`", (DOCS / "controllers.md").read_text()))
    assert named == set(NAMES)


def test_every_controller_explains_its_module() -> None:
    for controller in CONTROLLERS:
        module = __import__(controller.__module__, fromlist=["__doc__"])
        assert module.__doc__


def test_what_the_package_offers_is_there() -> None:
    assert client.__all__ == sorted(client.__all__, key=lambda name: (name.islower(), name))
    assert all(hasattr(client, name) for name in client.__all__)
