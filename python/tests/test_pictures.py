"""Figures, pages and exports."""

import html
import re
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import headscope
from reports import planted, small


class Pictures(unittest.TestCase):
    def test_a_view_is_a_sentence_to_play_with(self) -> None:
        view = headscope.view("box:planted", ["The cat sat .", "A dog barked ."], head=["L0H0", "L1H2"])
        texts = "".join(ElementTree.fromstring(view.picture).itertext())
        for shown in ["L0H0, sentence 0", "L1H2, sentence 1", "barked"]:
            self.assertIn(shown, texts)
        self.assertEqual(view._repr_html_(), view.page._repr_html_())
        self.assertIn('data-names="L0H0 L1H2"', view.page)
        self.assertRegex(repr(view), r"^View\(picture=<headscope.Picture: [\d,]+ characters of SVG>, page=<.*>\)$")
        self.assertIn("barked", view.page)
        with self.assertRaisesRegex(headscope.HeadscopeError, "L9H9"):
            headscope.view("box:planted", "The cat sat .", head="L9H9")

    def test_a_view_of_all_heads_has_thumbnails(self) -> None:
        view = headscope.view("box:planted", "The cat sat .", head="all")
        self.assertNotIn("data-names", view.page)

    def test_figures_of_a_report(self) -> None:
        grid = planted().figure()
        self.assertEqual(ElementTree.fromstring(grid).tag, "{http://www.w3.org/2000/svg}svg")
        self.assertNotEqual(grid, planted().figure("heatmap:entropy"))
        self.assertEqual(grid._repr_html_(), f'<div style="max-width: 100%; overflow-x: auto">{grid}</div>')
        with self.assertRaisesRegex(headscope.HeadscopeError, "nothing"):
            planted().figure("nothing")
        with tempfile.TemporaryDirectory() as folder:
            grid.save(Path(folder, "grid.svg"))
            self.assertEqual(Path(folder, "grid.svg").read_text(encoding="utf-8"), grid)

    def test_the_page_stands_in_a_frame_of_its_own(self) -> None:
        page = planted().page()
        self.assertTrue(page.lower().startswith("<!doctype html>"))
        frame = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*" onload="[^"]*"></iframe>', page._repr_html_())
        assert frame is not None
        self.assertEqual(html.unescape(frame[1]), page)

    def test_exports(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            saved, page, table = Path(folder, "a.json"), Path(folder, "a.html"), Path(folder, "heads.csv")
            planted().save(saved)
            headscope.export(saved, page, table)
            self.assertEqual(page.read_text(encoding="utf-8"), planted().page())
            self.assertEqual(len(table.read_text(encoding="utf-8").splitlines()), 1 + len(planted().heads))
            headscope.export([planted(), small()], Path(folder, "side.html"))
            side = Path(folder, "side.html").read_text(encoding="utf-8")
            self.assertTrue("box:planted" in side and "box:small" in side)
            headscope.export(small(), Path(folder, "effects.csv"), table="effects")
            headscope.export(small(), Path(folder, "effects.svg"), figure="effects")
            self.assertEqual(ElementTree.parse(Path(folder, "effects.svg")).getroot().tag, "{http://www.w3.org/2000/svg}svg")


if __name__ == "__main__":
    unittest.main()
