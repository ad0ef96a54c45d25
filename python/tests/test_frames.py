"""Data frames of pandas and of polars."""

from __future__ import annotations

import builtins
import unittest
from typing import TYPE_CHECKING, Any
from unittest import mock

import headscope
from headscope._frames import of_csv, of_objects
from reports import has, planted, small

if TYPE_CHECKING:
    import pandas
    import polars


class Columns(unittest.TestCase):
    def test_cells_of_csv_have_the_type_of_all_in_a_column(self) -> None:
        columns = of_csv('a,b,c,d,e\n1,1,true,,"x, y"\n-2,1e-5,false,,\n,,,,3\n')
        self.assertEqual(
            {name: column.kind for name, column in columns.items()}, dict(zip("abcde", [int, float, bool, float, str]))
        )
        self.assertEqual(columns["a"].values, [1, -2, None])
        self.assertEqual(columns["b"].values, [1.0, 1e-5, None])
        self.assertEqual(columns["c"].values, [True, False, None])
        self.assertEqual(columns["d"].values, [None, None, None])
        self.assertEqual(columns["e"].values, ["x, y", None, "3"])

    def test_a_table_without_rows_or_columns(self) -> None:
        self.assertEqual(of_csv(""), {})
        self.assertEqual(of_csv('""\n'), {})
        self.assertEqual(of_csv("a,b\n")["b"].values, [])

    def test_objects_are_flat(self) -> None:
        one = {"n": 1, "at": {"x": 0.5, "ci95": [0, 1.5]}, "words": ["a", "b"], "rows": [{"z": 1}], "mixed": "3"}
        columns = of_objects([one, {"n": None, "mixed": 3}])
        self.assertEqual(list(columns), ["n", "at.x", "at.ci95_low", "at.ci95_high", "words", "mixed"])
        self.assertEqual((columns["n"].kind, columns["n"].values), (int, [1, None]))
        self.assertEqual(columns["at.ci95_high"].values, [1.5, None])
        self.assertEqual(columns["words"].values, ["a b", None])
        self.assertEqual((columns["mixed"].kind, columns["mixed"].values), (str, ["3", "3"]))


# Those that a model with a masked-LM head and the corpus in the program can have.
STUDIES = (
    "norms,repeats,segments,effect,gradient,knockout,pruning,output-shift,edges,similarity,cluster-effect,cluster-shift,"
    "probes,parser,examples"
)


@unittest.skipUnless(has("pandas"), "without pandas")
class Pandas(unittest.TestCase):
    def test_the_narrow_table_of_heads_has_fewer_than_60_columns_with_types(self) -> None:
        heads: pandas.DataFrame = small().frame()
        self.assertEqual(list(heads["name"]), [head["name"] for head in small().heads])
        self.assertLess(len(heads.columns), 60)
        self.assertNotIn("object", set(map(str, heads.dtypes)))
        types = {name: str(dtype) for name, dtype in heads.dtypes.items()}
        self.assertEqual((types["layer"], types["primary"], types["entropy"]), ("int64", "string", "float64"))
        at, first = next((at, head) for at, head in enumerate(small().heads) if head["labels"])
        row = heads.iloc[at]
        self.assertEqual(row["entropy"], first["metrics"]["entropy"])
        self.assertEqual(row["score"], first["labels"][0]["score"])
        self.assertEqual([row["ci95_low"], row["ci95_high"]], first["labels"][0]["ci95"])
        effect = small().effect["heads"][at]
        self.assertEqual(row["effect_verdict"], effect["verdict"])
        self.assertEqual([row["loss_effect_ci95_low"], row["loss_effect_ci95_high"]], effect["ci95"])
        self.assertEqual(row["description"], first["description"])

    def test_types_do_not_depend_on_what_a_report_has(self) -> None:
        with_effect, without = small().frame(), planted().frame()
        self.assertTrue(without["effect_verdict"].isna().all())
        both = [name for name in with_effect if name in without]
        self.assertEqual([with_effect[name].dtype for name in both], [without[name].dtype for name in both])
        for table in ("labels", "files", "relations", "by_head", "by_distance", "rules", "metrics"):
            first, second = small().frame(table), planted().frame(table)
            self.assertEqual({*first}, {*second}, table)
            kinds = [{name: str(frame[name].dtype).lower() for name in frame} for frame in (first, second)]
            self.assertEqual(kinds[0], kinds[1], table)
            self.assertNotIn("object", kinds[0].values())
        self.assertEqual(str(planted().frame("labels")["rests_on"].dtype), "string")

    def test_a_table_without_rows_has_its_columns(self) -> None:
        labels = headscope.compare_numbers(planted(), planted()).frame("labels")
        self.assertEqual((len(labels), str(labels["label"].dtype), str(labels["q"].dtype)), (0, "string", "float64"))

    def test_the_narrow_table_is_narrow_with_all_studies(self) -> None:
        report = headscope.analyze("box:small", limit=20, with_=STUDIES.split(","))
        self.assertLess(len(report.frame().columns), 60)
        self.assertGreater(len(report.frame(wide=True).columns), 200)
        # What is said of a section that is not there is true: each is there where its study was asked for.
        sections = {name for name, study in headscope._report.ON_REQUEST.items() if study in STUDIES.split(",")}
        self.assertEqual(len(sections), len(STUDIES.split(",")) - 1, "all but `repeats`, which has another default")
        self.assertEqual(sections - set(report), set())

    def test_the_wide_table_has_every_metric_with_its_interval(self) -> None:
        wide = small().frame(wide=True)
        self.assertIn("offset_mass.-1", wide.columns)
        entropy, ends = small().heads[0]["metrics"]["entropy"], small().heads[0]["ci95"]["entropy"]
        row = [wide[name][0] for name in ("entropy", "entropy_ci95_low", "entropy_ci95_high")]
        self.assertEqual(row, [entropy, *ends])
        self.assertEqual(list(wide["name"]), list(small().frame()["name"]))
        with self.assertRaisesRegex(TypeError, "wide=True is for 'heads'"):
            small().frame("labels", wide=True)

    def test_tables_are_those_of_the_program(self) -> None:
        labels = small().frame("labels")
        self.assertEqual(list(labels["label"]), [label["label"] for head in small().heads for label in head["labels"]])
        self.assertEqual(str(labels["borderline"].dtype), "bool")
        self.assertEqual(list(planted().frame("files")["name"]), ["box:gold"])
        self.assertEqual(set(small().frame("effects")["verdict"]), {head["verdict"] for head in small().effect["heads"]})
        with self.assertRaisesRegex(headscope.HeadscopeError, "no table `effects`: it has heads, labels"):
            planted().frame("effects")


@unittest.skipUnless(has("polars"), "without polars")
class Polars(unittest.TestCase):
    def test_types(self) -> None:
        import polars as pl

        heads: polars.DataFrame = small().frame(library="polars")
        self.assertEqual(heads["primary"].to_list(), [head["primary"] for head in small().heads])
        types = [heads.schema[name] for name in ("layer", "primary", "borderline", "entropy")]
        self.assertEqual(types, [pl.Int64, pl.String, pl.String, pl.Float64])
        self.assertEqual(heads["first_token_mass"].null_count(), heads.height)

    @unittest.skipUnless(has("pandas"), "without pandas")
    def test_both_libraries_have_the_same(self) -> None:
        for table in ["heads", "labels", "relations", "pruning"]:
            of_pandas, of_polars = small().frame(table), small().frame(table, library="polars")
            self.assertEqual(list(of_pandas.columns), of_polars.columns)
            self.assertEqual(of_pandas.isna().sum().tolist(), [column.null_count() for column in of_polars])


class Missing(unittest.TestCase):
    def test_a_library_that_is_not_there_is_named_with_the_way_to_it(self) -> None:
        real = builtins.__import__

        def without(name: str, *rest: Any, **named: Any) -> Any:
            if name in ("pandas", "polars"):
                raise ImportError(name)
            return real(name, *rest, **named)

        with mock.patch("importlib.import_module", without):
            with self.assertRaisesRegex(ImportError, "pandas, .* pip install pandas"):
                planted().frame()
            with self.assertRaisesRegex(ImportError, "polars, .* pip install polars"):
                planted().frame(library="polars")

    def test_another_library_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "'pandas' or 'polars', not 'dask'"):
            planted().frame(library="dask")  # type: ignore[call-overload]


if __name__ == "__main__":
    unittest.main()
