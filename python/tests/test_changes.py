"""Two analyses side by side."""

import json
import tempfile
import unittest
from pathlib import Path

import headscope
from reports import has, small


def changed() -> headscope.Report:
    """The report of 60 sentences, but that a head attends to separators less."""
    data = json.loads(small().to_json())
    head = data["heads"][3]
    low, high = head["ci95"]["separator_mass"]
    for key, value in [("metrics", head["metrics"]["separator_mass"]), ("ci95", [low, high])]:
        head[key]["separator_mass"] = [end + 0.5 for end in value] if isinstance(value, list) else value + 0.5
    return headscope.Report(json.dumps(data))


class Diff(unittest.TestCase):
    def test_the_same_has_no_changes(self) -> None:
        same = headscope.diff(small(), small())
        self.assertFalse(same.changed)
        self.assertEqual(repr(same), "<headscope.Changes: from box:small over box:gold to box:small over box:gold: "
                                     "0 labels, 0 relations, 0 metrics>")

    def test_a_change_is_told_and_is_no_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "after.json")
            changed().save(path)
            changes = headscope.diff(small(), path, rate=0.001)
        self.assertTrue(changes.changed)
        self.assertEqual([(one["name"], one["number"]) for one in changes.metrics], [("L0H3", "separator_mass")])
        self.assertEqual(changes["rate"], 0.001)

    def test_what_is_no_report_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(headscope.HeadscopeError) as raised:
            headscope.diff(small(), Path(folder, "nothing.json"))
        self.assertEqual(raised.exception.status, 3)

    @unittest.skipUnless(has("pandas"), "without pandas")
    def test_frames(self) -> None:
        changes = headscope.diff(small(), changed())
        metrics = changes.frame()
        self.assertEqual(metrics[["name", "number"]].to_numpy().tolist(), [["L0H3", "separator_mass"]])
        self.assertAlmostEqual(metrics["difference"][0], 0.5)
        self.assertLess(metrics["a.ci95_low"][0], metrics["a.value"][0])
        self.assertEqual(list(changes.frame("heads")["changed"]), [1])
        with self.assertRaisesRegex(KeyError, "no table 'corpus': there are "):
            changes.frame("corpus")


if __name__ == "__main__":
    unittest.main()
