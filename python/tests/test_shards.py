"""Shards of an analysis, merged."""

import tempfile
import unittest
from pathlib import Path
from typing import Any

import headscope

WITHOUT: dict[str, Any] = {"without": "choice", "no_run_info": True, "limit": 600}
"""Leaves out the one study of the default that takes two stages."""


class Shards(unittest.TestCase):
    def test_merged_they_are_the_report_of_one_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            parts = [Path(folder, f"part-{number}.headscope") for number in (1, 2)]
            for number, part in enumerate(parts, 1):
                written = headscope.analyze_shard("box:planted", "box:gold", shard=f"{number}/2", output=part, **WITHOUT)
                self.assertEqual(written, part)
            whole = headscope.analyze("box:planted", "box:gold", **WITHOUT)
            self.assertEqual(headscope.merge(parts, no_run_info=True).heads, whole.heads)
            self.assertEqual(headscope.merge(folder, no_run_info=True).heads, whole.heads)
            self.assertEqual(headscope.missing_shards(folder, 2), "")

            parts[1].unlink()
            self.assertEqual(headscope.missing_shards(folder, 2), "2")
            with self.assertRaises(headscope.HeadscopeError) as raised:
                headscope.merge(parts[0])
            self.assertEqual((raised.exception.code, raised.exception.status), ("incomplete", 6))

    def test_two_stages(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder, "first.headscope"), Path(folder, "second.headscope")
            both = Path(folder, "both.headscope")
            options: dict[str, Any] = {"with_": "choice", "limit": 20, "no_run_info": True}
            headscope.analyze_shard("box:planted", shard="1/1", output=first, **options)
            headscope.merge_parts(first, both)
            headscope.analyze_shard("box:planted", shard="1/1", output=second, after=both, **options)
            merged = headscope.merge([both, second], no_run_info=True)
        self.assertEqual(merged.choice, headscope.analyze("box:planted", **options).choice)


if __name__ == "__main__":
    unittest.main()
