"""The documentation: its examples run, and name nothing that cannot be had."""

import contextlib
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

from reports import has

ROOT = Path(__file__).resolve().parents[2]


class Docs(unittest.TestCase):
    @unittest.skipUnless(has("numpy", "pandas", "polars"), "without numpy, pandas and polars")
    def test_the_examples_run_one_after_the_other(self) -> None:
        page = ROOT.joinpath("docs/PYTHON.md").read_text(encoding="utf-8")
        examples = [(page.count("\n", 0, found.start()) + 2, found[1]) for found in re.finditer(r"```python\n(.*?)```", page, re.S)]
        self.assertGreater(len(examples), 8)
        scope: dict[str, object] = {}
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for line, example in examples:
                with self.subTest(f"docs/PYTHON.md:{line}"):
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile("\n" * (line - 1) + example, "docs/PYTHON.md", "exec"), scope)
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
