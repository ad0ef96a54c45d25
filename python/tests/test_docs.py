"""The documentation: its examples run, and name nothing that cannot be had."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

from reports import has, planted

ROOT = Path(__file__).resolve().parents[2]


def examples(page: str) -> list[tuple[int, str]]:
    """The code in Python on a page, each with the number of its first line."""
    text = ROOT.joinpath(page).read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 2, found[1]) for found in re.finditer(r"```python\n(.*?)```", text, re.S)]


class Docs(unittest.TestCase):
    @unittest.skipUnless(has("numpy", "pandas", "polars"), "without numpy, pandas and polars")
    def test_the_examples_run_one_after_the_other(self) -> None:
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        page = "docs/PYTHON.md"
        found = examples(page)
        self.assertGreaterEqual(len(found), 10)
        scope: dict[str, object] = {}
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            planted().save(Path(folder, "report.json"))
            os.chdir(folder)
            for line, example in found:
                with self.subTest(f"{page}:{line}"):
                    exec(compile("\n" * (line - 1) + example, page, "exec"), scope)
            os.chdir(before)

    def test_nothing_is_installed_by_a_name_that_no_registry_has(self) -> None:
        texts = [ROOT / "README.md", *ROOT.glob("docs/**/*.*"), *ROOT.glob("python/headscope/*.py")]
        self.assertGreater(len(texts), 20)
        for path in texts:
            text = path.read_text(encoding="utf-8", errors="replace")
            found = re.search(r"(pip3?|uv|pipx|conda|cargo) (add |install )(-\S+ )*['\"]?headscope(?![-\w/.])", text)
            self.assertIsNone(found, f"{path}: {found and found[0]}")


if __name__ == "__main__":
    unittest.main()
