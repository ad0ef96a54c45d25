"""Reports: what the program writes, by name, in files and in a notebook."""

import gzip
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import headscope
from reports import planted


class Reports(unittest.TestCase):
    def test_names_are_those_of_the_json(self) -> None:
        report = planted()
        versions = subprocess.run([headscope.program(), "--version", "--verbose"], capture_output=True, text=True, check=True)
        self.assertIn(f"report schema: {report['schema_version']}\n", versions.stdout)
        self.assertEqual(report.model["id"], "box:planted")
        self.assertEqual(report.corpus["sentences"], 200)
        self.assertEqual(len(report.heads), report.model["layers"] * report.model["heads"])
        self.assertEqual(report.head("L0H0"), report.heads[0])
        self.assertEqual(report.head("l0h0"), report.heads[0])
        self.assertIn("heads", dir(report))
        with self.assertRaisesRegex(KeyError, "no head 'L99H0': heads are named L0H0 to L2H3"):
            report.head("L99H0")
        with self.assertRaisesRegex(AttributeError, "no key 'nothing'"):
            report.nothing
        with self.assertRaisesRegex(AttributeError, r"`output-shift` was not run: .*with_=\[\"output-shift\"\]"):
            report.output_shift
        with self.assertRaisesRegex(headscope.HeadscopeError, r"no figure `effects`(.|\n)*with_=\[\"effect\"\]"):
            report.figure("effects")

    def test_a_section_is_found_by_its_earlier_name_and_by_its_new_one(self) -> None:
        for name in ["dependence", "edges"]:
            report = headscope.Report(json.dumps({**planted(), name: {"edges": 96}}))
            self.assertEqual(report["dependence"], {"edges": 96})
            self.assertEqual(report.edges, {"edges": 96})
        with self.assertRaises(KeyError):
            headscope.Report("{}")["edges"]

    def test_it_is_the_report_that_the_program_writes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json")
            options = ["-c", "box:gold", "--limit=200", "--no-run-info", "-q", "-o", str(path)]
            subprocess.run([headscope.program(), "analyze", "box:planted", *options], check=True)
            self.assertEqual(planted().to_json(), path.read_text(encoding="utf-8"))
            self.assertEqual(dict(headscope.load(path)), dict(planted()))
            copy = Path(folder, "copy.json")
            planted().save(copy)
            self.assertEqual(copy.read_bytes(), path.read_bytes())

    def test_it_is_read_and_written_compressed(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "report.json.gz")
            planted().save(path)
            self.assertEqual(gzip.decompress(path.read_bytes()).decode("utf-8"), planted().to_json())
            self.assertEqual(dict(headscope.load(path)), dict(planted()))
            whole = path.read_bytes()
            planted().save(path)
            self.assertEqual(path.read_bytes(), whole, "equal reports are equal files")
            self.assertEqual(list(Path(folder).iterdir()), [path])
            with self.assertRaisesRegex(ValueError, r"page\.html: save\(\) writes \.json and \.json\.gz"):
                planted().save(Path(folder, "page.html"))

    def test_what_is_no_report_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "other.json")
            compressed = gzip.compress(planted().to_json().encode("utf-8"))
            for other in [b"[]", b"{}", b"5", b"1\tThe\tthe\n", b"", b"\xff\xfe", compressed[:1000], b"\x1f\x8bnothing"]:
                path.write_bytes(other)
                with self.assertRaises(ValueError) as raised:
                    headscope.load(path)
                self.assertTrue(str(raised.exception).startswith(f"{path}: this is no report of headscope in JSON"))
            with self.assertRaises(FileNotFoundError):
                headscope.load(Path(folder, "nothing.json"))

    def test_a_cell_shows_the_grid_first(self) -> None:
        shown = planted()._repr_html_()
        self.assertTrue(
            shown.startswith("<p>headscope.Report: box:planted, 3 x 4 heads, over box:gold, 200 sentences</p><div ")
        )
        for head in planted().heads:
            self.assertIn(f"<title>{head['name']}: {head['primary']}", shown)
        self.assertLess(len(shown), 20_000)
        self.assertEqual(repr(planted()), "<headscope.Report: box:planted, 3 x 4 heads, over box:gold, 200 sentences>")

    def test_a_cell_says_why_there_is_no_grid(self) -> None:
        other = headscope.Report(json.dumps({**planted(), "heads": []}))
        self.assertIn("</p><p>The grid of its heads cannot be drawn: ", other._repr_html_())

    def test_the_summary_is_that_of_the_terminal(self) -> None:
        self.assertIn("box:planted", planted().summary().splitlines()[0])

    def test_the_version_is_that_of_the_wheel(self) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            self.assertEqual(headscope.version(), version("headscope"))
        except PackageNotFoundError:
            self.skipTest("the module is not installed")
        self.assertEqual(headscope.version(), planted().tool["version"])
        self.assertRegex(headscope.__version__, r"^\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
