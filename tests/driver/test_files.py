"""Files on a node: what several hands may do at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drakit.driver import files


def test_two_may_remove_the_same_tree(tmp_path: Path) -> None:
    for round_ in range(5):
        tree = tmp_path / str(round_)
        for folder in range(10):
            (tree / str(folder)).mkdir(parents=True)
            for number in range(30):
                (tree / str(folder) / str(number)).touch()
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(files.remove_tree, (tree, tree)))
        assert not tree.exists()
