"""Options and errors: how the program is called, and what it says when it fails."""

import json
import os
import pickle
import signal
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import headscope
from headscope import _keywords
from headscope._errors import error_of
from headscope._options import RESULT, options_of, spelt


class Options(unittest.TestCase):
    def test_options_of_every_kind(self) -> None:
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

    def test_options_that_say_where_a_result_goes_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "'output'"):
            headscope.analyze(output="x.json")  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "'shard'"):
            headscope.analyze(shard="1/2")  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "'help'"):
            headscope.view(head="all", help=True)  # type: ignore[call-arg]

    def test_an_empty_list_is_not_taken_for_the_default(self) -> None:
        with self.assertRaisesRegex(ValueError, "corpus is an empty list"):
            headscope.analyze(corpus=[])

    def test_an_option_that_is_not_there_is_answered_in_the_words_of_python(self) -> None:
        for name, meant in [("studies", "with_"), ("max_token", "max_tokens"), ("modle", "it has adapter, ")]:
            with self.assertRaisesRegex(TypeError, f"analyze has no option '{name}': (did you mean )?{meant}"):
                headscope.analyze("box:planted", **{name: 1})  # type: ignore[arg-type]

    def test_the_options_that_have_types_are_those_of_the_program(self) -> None:
        not_typed = RESULT | {"corpus", "shard", "after", "missing", "text", "numbers", "figure", "table", "full", "fail-on", "dry-run"}
        commands = {"analyze": _keywords.Analyze, "merge": _keywords.Merge, "maps": _keywords.Maps, "view": _keywords.View}
        commands |= {"compare": _keywords.Compare, "export": _keywords.Export, "batch": _keywords.Batch}
        for command, typed in commands.items():
            # Heads are named beside the options of a view, and tensors have options of their own.
            of_words = {"find", "from-token", "relation", "link", "hide-special"}
            own = {"view": {"head", "layer", "rollout", "remove", "strict"}, "maps": of_words}.get(command, set())
            known = options_of(headscope.program(), command) - not_typed - own
            names = {*typed.__annotations__, *(_keywords.CompareNumbers.__annotations__ if command == "compare" else ())}
            self.assertEqual({spelt(name) for name in names} - {"corpus"}, known, command)

    def test_any_command_runs(self) -> None:
        self.assertIn("broad", headscope.run(["explain", "broad"]))


class Errors(unittest.TestCase):
    def test_errors_have_the_keys_of_the_program(self) -> None:
        with self.assertRaises(headscope.HeadscopeError) as raised:
            headscope.analyze("box:smal")
        self.assertEqual((raised.exception.code, raised.exception.status), ("usage", 2))
        self.assertIn("did you mean `box:small`?", raised.exception.message)
        self.assertEqual((raised.exception.value, raised.exception.line), ("box:smal", None))
        self.assertEqual(str(raised.exception), raised.exception.message)
        with tempfile.TemporaryDirectory() as folder:
            broken = Path(folder, "broken.conllu")
            broken.write_text("1\tThe\n", encoding="utf-8")
            with self.assertRaises(headscope.HeadscopeError) as raised:
                headscope.analyze("box:planted", broken)
        self.assertEqual((raised.exception.code, raised.exception.line), ("input", 1))
        self.assertEqual(raised.exception.file, str(broken))

    def test_the_last_error_has_those_before_it(self) -> None:
        none = {"file": None, "line": None, "value": None, "hint": None}
        lines = [json.dumps({"code": "model", "status": 4, "message": text, **none}) for text in ["no model", "1 failed"]]
        error = error_of(4, "\n".join(["note: again", *lines]))
        self.assertEqual((error.message, str(error)), ("1 failed", "1 failed\n- no model"))
        self.assertEqual([one.message for one in error.earlier], ["no model"])
        sent = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(sent), sent.status, len(sent.earlier)), (str(error), 4, 1))

    def test_a_program_that_was_killed_has_the_status_of_a_shell(self) -> None:
        ended = error_of(-signal.SIGTERM, "headscope: half a line")
        self.assertEqual((ended.code, ended.status, ended.message), ("failed", 143, "headscope: half a line"))
        self.assertEqual(str(error_of(-9, "")), "headscope ended with status 137")

    def test_a_hint_stands_in_the_text_of_the_error(self) -> None:
        with self.assertRaisesRegex(headscope.HeadscopeError, "invalid value 'efect' for `with_=`(.|\n)*\nhint: .*'effect'"):
            headscope.analyze("box:planted", with_=["efect"])
        with self.assertRaisesRegex(headscope.HeadscopeError, r"for `limit=`.*\nhint: run `print\(headscope\.run\("):
            headscope.analyze("box:planted", limit="x")  # type: ignore[arg-type]

    def test_what_headscope_names_and_cannot_be_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text")
            text.write_text("no program", encoding="utf-8")
            cases = {"/nonexistent/headscope": "not there", folder: "a folder", str(text): "may not be run"}
            for named, why in cases.items():
                with mock.patch.dict(os.environ, {"HEADSCOPE": named}):
                    with self.assertRaisesRegex(OSError, f"the environment variable HEADSCOPE names .* {why}"):
                        headscope.version()

    def test_a_program_that_is_nowhere_is_named(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": ""}), mock.patch("headscope._program.NAME", "headscope-nowhere"):
            os.environ.pop("HEADSCOPE", None)
            with self.assertRaisesRegex(FileNotFoundError, r"pip install \.` in a checkout .* HEADSCOPE"):
                headscope.version()


if __name__ == "__main__":
    unittest.main()
