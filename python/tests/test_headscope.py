"""The module against the program that is installed with it: python -m unittest discover python/tests"""

import json
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

import headscope
from headscope._program import error_of

OPTIONS = {"limit": 20, "no_run_info": True}


class Analysis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.report = headscope.analyze("box:planted", "box:gold", **OPTIONS)

    def test_names_are_those_of_the_json(self):
        report = self.report
        versions = subprocess.run([headscope.program(), "--version", "--verbose"], capture_output=True, text=True, check=True)
        self.assertIn(f"report schema: {report['schema_version']}\n", versions.stdout)
        self.assertEqual(report.model["id"], "box:planted")
        self.assertEqual(report.corpus["sentences"], 20)
        self.assertEqual(len(report.heads), report.model["layers"] * report.model["heads"])
        self.assertEqual(report.head("L0H0"), report.heads[0])
        with self.assertRaises(KeyError):
            report.head("L99H0")
        with self.assertRaises(AttributeError):
            report.nothing

    def test_it_is_the_report_that_the_program_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            command = [headscope.program(), "analyze", "box:planted", "-c", "box:gold", "--limit=20", "--no-run-info", "-q"]
            subprocess.run([*command, "-o", path], check=True)
            self.assertEqual(self.report.to_json(), path.read_text(encoding="utf-8"))
            self.assertEqual(dict(headscope.load(path)), dict(self.report))
            copy = Path(folder, "copy.json")
            self.report.save(copy)
            self.assertEqual(copy.read_bytes(), path.read_bytes())

    def test_options_of_every_kind(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.txt")
            text.write_text("The cat sat on the mat .\nA dog barked .\n", encoding="utf-8")
            report = headscope.analyze(
                "box:planted", [text], with_=["repeats"], without="frequency", truncate=True, strict=False, threads=1
            )
        self.assertIn("repeats", report.settings["studies"])
        self.assertNotIn("frequency", report.settings["studies"])
        self.assertTrue(report.settings["truncate"])
        self.assertEqual(report.run["threads"], 1)
        for refused in [{"output": "x.json"}, {"help": True}]:
            with self.assertRaises(TypeError):
                headscope.analyze(**refused)

    def test_errors_have_the_keys_of_the_program(self):
        with self.assertRaises(headscope.HeadscopeError) as raised:
            headscope.analyze("box:smal")
        self.assertEqual((raised.exception.code, raised.exception.status), ("usage", 2))
        self.assertIn("did you mean `box:small`?", raised.exception.message)
        self.assertEqual((raised.exception.value, raised.exception.line), ("box:smal", None))
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, "broken.conllu")
            broken.write_text("1\tThe\n", encoding="utf-8")
            with self.assertRaises(headscope.HeadscopeError) as raised:
                headscope.analyze("box:planted", broken)
        self.assertEqual((raised.exception.code, raised.exception.line), ("input", 1))
        self.assertEqual(raised.exception.file, str(broken))

    def test_what_is_no_report_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "other.json")
            for other in [b"[]", b"1\tThe\tthe\n", b"", b"\xff\xfe"]:
                path.write_bytes(other)
                with self.assertRaises(ValueError) as raised:
                    headscope.load(path)
                self.assertTrue(str(raised.exception).startswith(f"{path}: this is no report of headscope in JSON"))

    def test_a_program_that_was_killed_has_the_status_of_a_shell(self):
        ended = error_of(-signal.SIGTERM, "headscope: half a line")
        self.assertEqual((ended.code, ended.status, ended.message), ("failed", 143, "headscope: half a line"))
        self.assertEqual(str(error_of(-9, "")), "headscope ended with status 137")

    def test_a_notebook_shows_it(self):
        shown = self.report._repr_html_()
        self.assertTrue(shown.startswith(("<iframe srcdoc=", "<p>&lt;headscope.Report: box:planted")), shown[:100])
        self.assertEqual(self.report._table().count("<td>"), len(self.report.heads))
        self.assertIn("box:planted", repr(self.report))

    def test_data_frames(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaises(ImportError):
                self.report.frame()
            return
        heads = self.report.frame()
        self.assertEqual(list(heads["name"]), [head["name"] for head in self.report.heads])
        self.assertIn("metrics.entropy_ratio", heads.columns)
        labels = self.report.labels()
        self.assertEqual(len(labels), sum(len(head["labels"]) for head in self.report.heads))
        self.assertEqual(list(self.report.frame("corpus.files")["name"]), ["box:gold"])
        with self.assertRaises(TypeError):
            self.report.frame("model")

    def test_the_version_is_that_of_the_wheel(self):
        from importlib.metadata import PackageNotFoundError, version

        try:
            self.assertEqual(headscope.version(), version("headscope"))
        except PackageNotFoundError:
            self.skipTest("the module is not installed")
        self.assertEqual(headscope.version(), self.report.tool["version"])
        self.assertEqual(json.loads(self.report.to_json())["tool"]["name"], "headscope")


if __name__ == "__main__":
    unittest.main()
