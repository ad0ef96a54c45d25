"""Attention as numpy arrays."""

import tempfile
import unittest
from pathlib import Path

import headscope
from reports import has


@unittest.skipUnless(has("numpy"), "without numpy")
class Maps(unittest.TestCase):
    def test_attention_of_texts(self) -> None:
        maps = headscope.maps("box:planted", ["The cat sat .", "A dog barked ."])
        self.assertEqual(list(maps), [0, 1])
        self.assertEqual((maps.model["id"], maps.axes), ("box:planted", ["layer", "head", "from", "to"]))
        self.assertEqual((maps.layers, maps.heads), (None, None))
        first = maps[0]
        tokens = len(first.tokens)
        self.assertEqual(first.attention.shape, (3, 4, tokens, tokens))
        self.assertEqual(str(first.attention.dtype), "float32")
        self.assertLess(abs(first.attention.sum(axis=-1) - 1).max(), 1e-5)
        self.assertEqual(first.words, ["The", "cat", "sat", "."])
        self.assertEqual([word for word in first.word_ids if word is not None], [0, 1, 2, 3])
        self.assertEqual((first.gold_heads, first.relations, first.sentence_id), (None, None, None))
        # Arrays are the reader's own.
        first.attention[0, 0] = 0
        self.assertEqual(repr(maps), "<headscope.Maps: box:planted, 2 sentences>")

    def test_sentences_of_a_treebank_have_their_numbers_and_trees(self) -> None:
        maps = headscope.maps("box:planted", sentence=[2, 5], head="L1H2")
        self.assertEqual((list(maps), maps.heads), ([2, 5], ["L1H2"]))
        sentence = maps[5]
        self.assertEqual(sentence.attention.shape, (1, len(sentence.tokens), len(sentence.tokens)))
        self.assertEqual(sentence.gold_heads.count(None) if sentence.gold_heads else 0, 1)
        self.assertIn("root", sentence.relations or [])
        self.assertIsInstance(sentence.sentence_id, str)
        self.assertEqual(headscope.maps("box:planted", limit=1, layer=1).layers, [1])

    def test_rollout_stands_in_place_of_attention(self) -> None:
        sentence = headscope.maps("box:planted", limit=1, rollout=True)[0]
        shape = (3, len(sentence.tokens), len(sentence.tokens))
        self.assertEqual((sentence.rollout.shape, sentence.rollout_even.shape), (shape, shape))
        with self.assertRaisesRegex(AttributeError, "no attention here"):
            sentence.attention

    def test_a_file_is_read_as_by_safetensors(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "maps.safetensors")
            headscope.run(["maps", "box:planted", "--limit", "2", "-o", path])
            maps = headscope.load_maps(path)
            if has("safetensors"):
                from safetensors import safe_open

                with safe_open(path, "np") as file:
                    for index in maps:
                        self.assertTrue((file.get_tensor(f"attentions.{index}") == maps[index].attention).all())
            whole = path.read_bytes()
            for other in [
                b"",
                b"12",
                b"\xff" * 64,
                whole[:-8],
                whole[:300],
                b"\x02" + bytes(7) + b"[]",
                b"\x02" + bytes(7) + b"{}",
            ]:
                path.write_bytes(other)
                with self.assertRaises(ValueError) as raised:
                    headscope.load_maps(path)
                self.assertTrue(str(raised.exception).startswith(f"{path}: this is no file of headscope maps: "))

    def test_the_name_of_a_file_is_no_text(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.conllu")
            path.write_text("", encoding="utf-8")
            for text in [str(path), [str(path)], folder]:
                with self.assertRaisesRegex(ValueError, "did you mean corpus="):
                    headscope.maps("box:planted", text)
        with self.assertRaisesRegex(TypeError, "sentence= chooses sentences of a corpus, and text is one itself"):
            headscope.maps("box:planted", "Hi.", sentence=0)


class Without(unittest.TestCase):
    @unittest.skipIf(has("numpy"), "with numpy")
    def test_numpy_is_named(self) -> None:
        with self.assertRaisesRegex(ImportError, "pip install numpy"):
            headscope.maps(limit=1)


if __name__ == "__main__":
    unittest.main()
