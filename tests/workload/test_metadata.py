"""What containers read: the seeds' paths, all versions, several drivers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drakit.driver.metadata import ClaimRef, MetadataDevice, MetadataWriter
from drakit.workload import MetadataError, decode, read_claim, read_template_claim


def body(version: str = "metadata.resource.k8s.io/v1beta1", **fields: Any) -> dict[str, Any]:
    device = {
        "driver": "gpu.example.com",
        "pool": "n",
        "name": "gpu-0",
        "attributes": {"model": {"string": "X"}, "n": {"ints": [1, 2]}},
    }
    return {
        "kind": "DeviceMetadata",
        "apiVersion": version,
        "metadata": {"name": "gpu-claim", "namespace": "default", "uid": "u", "generation": 3},
        "requests": [{"name": "gpu", "devices": [device]}],
        **fields,
    }


def place(root: Path, kind: str, owner: str, driver: str, *objects: dict[str, Any]) -> None:
    path = root / kind / owner / "gpu" / f"{driver}-metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(o, indent=2) + "\n" for o in objects))


def test_direct_claim_is_read_from_the_seeds_path(tmp_path: Path) -> None:
    place(tmp_path, "resourceclaims", "gpu-claim", "gpu.example.com", body())
    for found in (
        read_claim("gpu-claim", "gpu", root=tmp_path),
        read_claim("gpu-claim", "gpu", "gpu.example.com", root=tmp_path),
    ):
        assert (found.name, found.uid, found.generation, found.pod_claim_name) == ("gpu-claim", "u", 3, None)
        assert found.devices[0].attributes == {"model": "X", "n": (1, 2)}


def test_template_claim_is_read_by_the_pods_name_for_it(tmp_path: Path) -> None:
    place(tmp_path, "resourceclaimtemplates", "my-gpu", "gpu.example.com", body(podClaimName="my-gpu"))
    assert read_template_claim("my-gpu", "gpu", root=tmp_path).pod_claim_name == "my-gpu"


def test_several_drivers_are_merged_by_request(tmp_path: Path) -> None:
    place(tmp_path, "resourceclaims", "c", "a.example.com", body())
    other = {
        "driver": "b.example.com",
        "pool": "n",
        "name": "nic-0",
        "networkData": {"interfaceName": "eth1", "ips": ["10.0.0.1/8"]},
    }
    place(tmp_path, "resourceclaims", "c", "b.example.com", body(requests=[{"name": "gpu", "devices": [other]}]))
    found = read_claim("c", "gpu", root=tmp_path)
    assert [d.name for d in found.requests[0].devices] == ["gpu-0", "nic-0"]
    network = found.devices[1].network_data
    assert network is not None
    assert network.ips == ("10.0.0.1/8",)


def test_unknown_versions_are_skipped(tmp_path: Path) -> None:
    newer = {"kind": "DeviceMetadata", "apiVersion": "metadata.resource.k8s.io/v2", "anything": [1]}
    assert decode(json.dumps(newer) + json.dumps(body("metadata.resource.k8s.io/v1alpha1"))).uid == "u"
    with pytest.raises(MetadataError, match=r"no compatible metadata version .*metadata.resource.k8s.io/v2"):
        decode(json.dumps(newer))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "{",
        "[]",
        "[" * 100_000,
        '{"kind": "x"}',
        json.dumps(body(kind="Other")),
        json.dumps(body(requests=[{}])),
        json.dumps(body(requests=[{"name": 3}])),
    ],
)
def test_broken_streams_are_errors(text: str) -> None:
    with pytest.raises(MetadataError):
        decode(text)


def test_missing_metadata_says_what_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match=r"does the container list the claim in resources.claims"):
        read_claim("gpu-claim", "gpu", root=tmp_path)


@pytest.mark.parametrize("name", ["..", "a/b", "", "a\0"])
def test_names_cannot_leave_the_directory(name: str, tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="is not a claim or request name"):
        read_claim(name, "gpu", root=tmp_path)


def test_writer_and_reader_agree(tmp_path: Path) -> None:
    writer = MetadataWriter("gpu.example.com", tmp_path / "data", tmp_path / "cdi")
    ref = ClaimRef("default", "gpu-claim", "9b8f7a5e")
    cdi_id = writer.write(ref, "gpu/big", [MetadataDevice("n", "gpu-0", {"model": {"string": "X"}})])
    assert cdi_id == "gpu.example.com/metadata=9b8f7a5e_gpu"
    spec = json.loads((tmp_path / "cdi" / "gpu.example.com_metadata_9b8f7a5e_gpu.json").read_text())
    (mount,) = spec["devices"][0]["containerEdits"]["mounts"]
    assert mount["hostPath"] == str(
        tmp_path / "data" / "dra-device-metadata" / "default_gpu-claim" / "gpu" / "metadata.json"
    )
    text = Path(mount["hostPath"]).read_text()
    assert [json.loads(part)["apiVersion"].split("/")[1] for part in _objects(text)] == ["v1beta1", "v1alpha1"]
    assert decode(text).requests[0].name == "gpu/big"
    writer.remove("default", "gpu-claim", "9b8f7a5e")
    assert list((tmp_path / "cdi").iterdir()) == []


def _objects(text: str) -> list[str]:
    decoder, position, found = json.JSONDecoder(), 0, []
    while position < len(text.rstrip()):
        _, end = decoder.raw_decode(text, position)
        found.append(text[position:end])
        position = end + 1
    return found
