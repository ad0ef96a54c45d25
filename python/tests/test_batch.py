"""Tables of models and corpora."""

import tempfile
import unittest
from pathlib import Path

import headscope
from reports import has

TABLE = """
[models]
planted = "box:planted"
[corpora]
gold = {corpus = "box:gold", limit = 20}
few = {corpus = "box:gold", limit = 5}
"""


class Batches(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.table, self.output = Path(folder.name, "runs.toml"), Path(folder.name, "out")
        self.table.write_text(TABLE, encoding="utf-8")

    def test_reports_by_the_names_of_runs(self) -> None:
        done = headscope.batch(self.table, self.output, as_="html")
        self.assertEqual(sorted(done), ["planted.few", "planted.gold"])
        self.assertEqual(done["planted.few"].corpus["sentences"], 5)
        self.assertEqual(repr(done), f"<headscope.Batch: {self.output}, 2 reports>")
        with self.assertRaisesRegex(KeyError, "no report of 'other': it has those of planted.gold, planted.few"):
            done["other"]
        if has("pandas"):
            runs = done.frame()
            self.assertEqual(sorted(runs["sentences"]), [5, 20])
            for column in ("sentences", "firm", "labels.broad", "firm_labels.broad"):
                self.assertEqual(str(runs[column].dtype), "int64", column)
            with self.assertRaises(TypeError):
                done.frame("heads")

    def test_reports_may_be_kept_packed_alone(self) -> None:
        done = headscope.batch(self.table, self.output, as_="json.gz")
        self.assertEqual(sorted(self.output.glob("*.json*")), [self.output / name for name in (
            "batch.json", "planted.few.json.gz", "planted.gold.json.gz")])
        self.assertEqual(done["planted.few"].corpus["sentences"], 5)

    def test_a_run_that_fails_is_named_and_the_others_are_there(self) -> None:
        self.table.write_text(TABLE.replace("[corpora]", 'gone = "./nothing"\n[corpora]'), encoding="utf-8")
        with self.assertRaises(headscope.HeadscopeError) as raised:
            headscope.batch(self.table, self.output)
        self.assertEqual(raised.exception.status, 4)
        self.assertEqual(len(raised.exception.earlier), 1)
        self.assertRegex(str(raised.exception), r"2 of 4 runs failed: .*\n- runs gone\.gold, gone\.few: .*:4: no such model folder")
        self.assertEqual(sorted(headscope.Batch(self.output)), ["planted.few", "planted.gold"])


if __name__ == "__main__":
    unittest.main()
