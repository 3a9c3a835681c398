"""The metrics module; and `families`, which reads a page by the rules of Prometheus' text format and complains of every breach."""

from __future__ import annotations

import re

import pytest

from drakit.metrics import Registry, exponential

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)\}})? (\S+)")


def families(text: str) -> dict[str, tuple[str, Samples]]:
    """Family -> kind and samples. AssertionError says what is wrong with the page."""
    assert text.endswith("\n")
    found: dict[str, tuple[str, Samples]] = {}
    described: set[str] = set()
    name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert re.fullmatch(NAME, name), line
            assert name not in described, f"a second HELP of {name}"
            described.add(name)
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert typed == name, f"TYPE of {typed} stands under {name}"
            assert typed not in found, f"a second TYPE of {typed}"
            assert kind in ("counter", "gauge", "histogram"), line
            found[name] = kind, {}
        else:
            _read_sample(line, name, *found[name])
    for family, (kind, samples) in found.items():
        if kind == "histogram":
            _check_histogram(family, samples)
    return found


def _read_sample(line: str, family: str, kind: str, samples: Samples) -> None:
    match = SAMPLE.fullmatch(line)
    assert match, f"not a sample: {line}"
    suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
    assert match[1] in [family + suffix for suffix in suffixes], f"{match[1]} stands under {family}"
    labels = re.findall(LABEL, match[2] or "")
    key = match[1], frozenset(labels)
    assert len(key[1]) == len(labels), f"a label twice: {line}"
    assert key not in samples, f"twice: {line}"
    samples[key] = float(match[7])
    assert kind != "counter" or samples[key] >= 0, line


def _check_histogram(name: str, samples: Samples) -> None:
    rows: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    for (sample, labels), value in samples.items():
        if sample == f"{name}_bucket":
            bounds = [float(text) for label, text in labels if label == "le"]
            assert len(bounds) == 1, f"{name}: a bucket without le"
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            rows.setdefault(rest, []).append((bounds[0], value))
    for labels, buckets in rows.items():
        counts = [count for _, count in sorted(buckets)]
        assert counts == sorted(counts), f"{name}: buckets are cumulative"
        assert sorted(buckets)[-1] == (float("inf"), samples[f"{name}_count", labels])
        assert (f"{name}_sum", labels) in samples


def test_the_text() -> None:
    registry = Registry()
    registry.counter("c_total", "Counts\nthings", ("a", "code")).inc('x"y\\z\n', 200)
    registry.counter("none_total", "Nothing yet")
    registry.gauge("g", "Gauges", read=lambda: {(): 2.5})
    registry.gauge("s", "Set", ("a",)).set(0.25, "b")
    seconds = registry.histogram("h", "Measures", (1, 0.1))
    for value in (0.5, 1, 7):
        seconds.observe(value)
    assert registry.render() == (
        '# HELP c_total Counts\\nthings\n# TYPE c_total counter\nc_total{a="x\\"y\\\\z\\n",code="200"} 1\n'
        "# HELP none_total Nothing yet\n# TYPE none_total counter\nnone_total 0\n"
        "# HELP g Gauges\n# TYPE g gauge\ng 2.5\n"
        '# HELP s Set\n# TYPE s gauge\ns{a="b"} 0.25\n'
        "# HELP h Measures\n# TYPE h histogram\n"
        'h_bucket{le="0.1"} 0\nh_bucket{le="1"} 2\nh_bucket{le="+Inf"} 3\nh_sum 8.5\nh_count 3\n'
    )
    families(registry.render())
    assert Registry().render() == ""


def test_families_of_one_name_come_together() -> None:
    one, other = Registry(), Registry()
    for registry, shared in ((one, 2), (other, 3)):
        registry.counter("c_total", "C", ("a",)).inc("shared", by=shared)
        registry.histogram("h", "H", (1, 2)).observe(shared)
    other.counter("c_total", "C", ("a",)).inc("own")
    one.include(other)
    one.include(other)
    one.include(one)
    page = families(one.render())
    assert page["c_total"][1] == {
        ("c_total", frozenset({("a", "shared")})): 5,
        ("c_total", frozenset({("a", "own")})): 1,
    }
    assert page["h"][1]["h_count", frozenset()] == 2
    assert page["h"][1]["h_bucket", frozenset({("le", "2")})] == 1
    assert 'c_total{a="shared"} 3' in other.render(), "the other's own page stays its own"


def test_readers_of_one_family_add_up() -> None:
    registry = Registry()
    for _ in range(2):
        registry.gauge("depth", "Depth", ("name",), read=lambda: {("b",): 1})
    registry.gauge("depth", "Depth", ("name",), read=lambda: {("a",): 1})
    assert registry.render().splitlines()[2:] == ['depth{name="a"} 1', 'depth{name="b"} 2']


def test_a_name_has_one_meaning() -> None:
    registry, other = Registry(), Registry()
    assert registry.counter("c", "C", ("a",)) is registry.counter("c", "C", ("a",))
    with pytest.raises(ValueError, match="metric c: .* cannot be one family"):
        registry.counter("c", "C", ("b",))
    with pytest.raises(ValueError, match="cannot be one family"):
        registry.gauge("c", "C", ("a",))
    registry.histogram("h", "H", (1, 2))
    other.histogram("h", "H", (1, 3))
    registry.include(other)
    with pytest.raises(ValueError, match="metric h"):
        registry.render()


def test_exponential_bounds() -> None:
    assert exponential(0.001, 2, 4) == (0.001, 0.002, 0.004, 0.008)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param("# HELP a A\n# TYPE a counter\na 1", id="no-newline-at-the-end"),
        pytest.param("# HELP a A\n# TYPE a counter\na 1\na 1\n", id="sample-twice"),
        pytest.param("# HELP a A\n# TYPE a counter\n# HELP a A\n", id="help-twice"),
        pytest.param("# HELP a A\n# TYPE a counter\na -1\n", id="negative-counter"),
        pytest.param('# HELP a A\n# TYPE a gauge\na{b="x"y"} 1\n', id="quote-not-escaped"),
        pytest.param("# HELP a A\n# TYPE a gauge\nb 1\n", id="sample-of-another"),
        pytest.param(
            '# HELP a A\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
            id="buckets-not-cumulative",
        ),
    ],
)
def test_the_checker_can_fail(page: str) -> None:
    with pytest.raises(AssertionError):
        families(page)
