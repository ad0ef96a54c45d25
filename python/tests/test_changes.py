"""Two analyses side by side."""

import json
import tempfile
import unittest
from pathlib import Path

import headscope
from reports import has, planted, small


def changed() -> headscope.Report:
    """The report of planted heads, but that L1H0 attends to separators by a tenth."""
    data = json.loads(planted().to_json())
    head = data["heads"][4]
    head["metrics"]["separator_mass"] = 0.1
    head["ci95"]["separator_mass"] = [0.09, 0.11]
    return headscope.Report(json.dumps(data))


class Numbers(unittest.TestCase):
    def test_the_same_has_no_changes(self) -> None:
        same = headscope.compare_numbers(planted(), planted())
        self.assertFalse(same.changed)
        self.assertEqual(
            repr(same),
            "<headscope.Changes: from box:planted over box:gold to box:planted over box:gold: "
            "0 labels, 0 relations, 0 metrics>",
        )

    def test_a_change_is_told_and_is_no_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "after.json")
            changed().save(path)
            changes = headscope.compare_numbers(planted(), path, rate=0.001)
        self.assertTrue(changes.changed)
        self.assertEqual([(one["name"], one["number"]) for one in changes.metrics], [("L1H0", "separator_mass")])
        self.assertEqual(changes["rate"], 0.001)

    def test_the_name_of_the_version_before_says_the_new_one(self) -> None:
        with self.assertWarnsRegex(DeprecationWarning, "compare_numbers"):
            self.assertFalse(headscope.diff(planted(), planted()).changed)

    def test_what_is_no_report_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(headscope.HeadscopeError) as raised:
            headscope.compare_numbers(planted(), Path(folder, "nothing.json"))
        self.assertEqual(raised.exception.status, 3)

    @unittest.skipUnless(has("pandas"), "without pandas")
    def test_frames(self) -> None:
        changes = headscope.compare_numbers(planted(), changed())
        metrics = changes.frame()
        self.assertEqual(metrics[["name", "number"]].to_numpy().tolist(), [["L1H0", "separator_mass"]])
        self.assertEqual((metrics["a.value"][0], metrics["b.value"][0]), (planted().heads[4]["metrics"]["separator_mass"], 0.1))
        self.assertEqual((metrics["b.ci95_low"][0], metrics["b.ci95_high"][0]), (0.09, 0.11))
        self.assertEqual(list(changes.frame("heads")["changed"]), [1])
        with self.assertRaisesRegex(KeyError, "no table 'corpus': there are metrics, labels, relations, heads, left_aside"):
            changes.frame("corpus")


class Compare(unittest.TestCase):
    def test_labels_of_the_same_report_are_kept_or_borderline(self) -> None:
        same = headscope.compare(planted(), planted())
        self.assertFalse(same.changed)
        self.assertEqual([head["name"] for head in same.heads], [head["name"] for head in planted().heads])
        self.assertEqual(same.agreement["first_label"]["share"], 1)
        labels = [label for head in planted().heads for label in head["labels"]]
        firm = sum(not label["borderline"] and label["label"] != "broad" for label in labels)
        self.assertEqual(same.labels_by_outcome["kept"], firm)
        self.assertTrue(
            repr(same).startswith(
                f"<headscope.Comparison: from box:planted over box:gold to box:planted over box:gold: labels {firm} kept"
            )
        )
        self.assertTrue(same.page().lower().startswith("<!doctype html>"))

    def test_other_heads_cannot_be_compared(self) -> None:
        with self.assertRaisesRegex(headscope.HeadscopeError, "4 layers of 4 heads and 3 layers of 4 heads"):
            headscope.compare(small(), planted())

    def test_a_label_that_is_lost(self) -> None:
        compared = headscope.compare(planted(), changed())
        self.assertTrue(compared.changed)
        lost = [(head["name"], head["primary_a"]) for head in compared.heads if head["outcome"] == "lost"]
        self.assertEqual(lost, [("L1H0", "separator")])
        self.assertIn(", 1 lost", repr(compared))

    @unittest.skipUnless(has("pandas"), "without pandas")
    def test_frames(self) -> None:
        same = headscope.compare(planted(), planted())
        heads = same.frame()
        self.assertEqual(list(heads["primary_a"]), [head["primary"] for head in planted().heads])
        self.assertEqual(heads["kept"][0], "previous-token")
        self.assertEqual((str(heads["lost"].dtype), heads["lost"].count()), ("string", 0))
        labels = [label for head in planted().heads for label in head["labels"] if label["label"] != "broad"]
        self.assertEqual(len(same.frame("labels")), len(labels))
        self.assertIn("agreement.share", same.frame("families").columns)


if __name__ == "__main__":
    unittest.main()
