//! View of the report section `interchange`: summary, brief sentence, figure, head cards and table.

use std::fmt::{self, Write};

use itertools::Itertools;

use super::section::{CorruptionOfItems, ExchangeVerdict, ExchangedHead, InterchangeResult, ShareTests};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::sequences::derived::task::ExchangedPositions;
use crate::stats::block_test::MIN_BLOCKS_FOR_TEST;
use crate::stats::interval::Interval;
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::labels::policy::Policy;
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext};
use crate::study::show::wording::{
    aligned_table, capitalize, decimal, plus_minus, serialized_name, significance_text, whole_percent,
};
use crate::study::show::{Chart, Figure, Forest, ForestRow, InBrief, Mark, Shortage, Summary, TableRows};
use crate::system::counts::{format_count, plural};

/// Maximum number of heads in the table of the summary.
const MAX_ROWS: usize = 10;

/// Why no head has a verdict if the items have several corruptions.
const SEVERAL_CORRUPTIONS: &str =
    "no verdict on items of several corruptions, which may need different heads: give each a file of its own";

impl Section for InterchangeResult {
    fn add_late_fact(&mut self, known: &LateFact<'_>) {
        if let LateFact::Policy(policy) = known {
            self.judge(policy);
        }
    }

    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(policy),
            lacks_subject: self.items == 0,
            summary: Summary::from_writer(|out| self.write_summary(out, policy)),
            figures: self.figure().into_iter().collect(),
            tables: vec![TableRows::new("interchange", &self.heads)],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let head = self.heads.iter().find(|head| head.place == place);
        let Some((head, [restored, destroyed])) = head.and_then(|head| Some((head, head.share_texts()?))) else {
            return HeadCard::default();
        };
        let corruption = self.corruption_text();
        let verdict = head.verdicts_text();
        let line = format!(
            "by its contexts alone {restored} of the gap of {corruption} is restored, {destroyed} destroyed: {verdict}"
        );
        let clause = head.verdicts.first().map(|verdict| match verdict {
            ExchangeVerdict::Restores => format!("restores {restored} of the gap of {corruption}"),
            ExchangeVerdict::Needed => format!("is needed for {destroyed} of the gap of {corruption}"),
            ExchangeVerdict::Carries | ExchangeVerdict::Opposes => {
                let does = serialized_name(verdict);
                format!("{does} the answer under {corruption} (restores {restored}, destroys {destroyed})")
            }
        });
        HeadCard::from_iter([line]).with_clauses(clause)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        grid.missing_head_defect("interchange.heads", self.heads.iter().map(|head| head.place))
    }
}

/// A share with half of its 95 % interval, as text.
fn share_text(value: f64, ci95: Option<Interval>) -> String {
    format!("{}{}", decimal(value, 2), plus_minus(ci95, 2))
}

impl ExchangedHead {
    /// `[restored, destroyed]` shares as text; `None` if either is missing.
    fn share_texts(&self) -> Option<[String; 2]> {
        Some([share_text(self.restored?, self.restored_ci95), share_text(self.destroyed?, self.destroyed_ci95)])
    }

    /// The larger of the absolute values of `restored` and `destroyed`, by which heads are ordered. `None` if
    /// either is missing.
    fn largest_abs_share(&self) -> Option<f64> {
        Some(self.restored?.abs().max(self.destroyed?.abs()))
    }

    /// The verdicts on the head as text; `undecided` without a verdict.
    fn verdicts_text(&self) -> String {
        let words = self.verdicts.iter().map(serialized_name).join(", ");
        if words.is_empty() { "undecided".to_owned() } else { words }
    }
}

/// Formats the corruption with means over items: `the corruption "one token" (1.0 of 12.0 tokens changed)`.
impl fmt::Display for CorruptionOfItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |tokens: u64| decimal(tokens as f64 / self.items.max(1) as f64, 1);
        let changed = format!("{} of {} tokens", mean(self.changed), mean(self.tokens));
        match &self.name {
            Some(name) => write!(f, "the corruption \"{name}\" ({changed} changed)"),
            None => write!(f, "a corruption of {changed}"),
        }
    }
}

impl InterchangeResult {
    fn in_brief(&self, policy: &Policy) -> InBrief {
        if self.items == 0 {
            return InBrief::default();
        }
        let shortage = Shortage::from_item_counts("verdicts on exchanged heads", [self.items, self.units], policy);
        let corruption = self.corruption_text();
        let carry = self
            .heads_by_largest_share()
            .into_iter()
            .filter(|head| head.verdicts.first() == Some(&ExchangeVerdict::Carries));
        let named = carry.take(3).map(|head| head.place).join(", ");
        let named = if named.is_empty() { named } else { format!(" (largest: {named})") };
        let found = match self.gap_not_shown_reason() {
            Some(why) => format!("Under {corruption}: {why}."),
            None if self.has_several_corruptions() => format!("Under {corruption}: {SEVERAL_CORRUPTIONS}."),
            // Too few items for any verdict: the shortage says so.
            None if shortage.is_some() => return InBrief { shortage, ..InBrief::default() },
            None => format!("Under {corruption} {}{named}.", self.verdict_counts()),
        };
        InBrief { shortage, ..InBrief::from_finding(found) }
    }

    /// Describes the corruptions of the items with their mean numbers of changed tokens, separated by commas.
    fn corruption_text(&self) -> String {
        self.corruptions.iter().join(", ")
    }

    /// Lists the heads by falling [`largest`](ExchangedHead::largest_abs_share) share.
    fn heads_by_largest_share(&self) -> Vec<&ExchangedHead> {
        let known = self.heads.iter().filter_map(|head| Some((head.largest_abs_share()?, head)));
        known.sorted_by(|a, b| b.0.total_cmp(&a.0)).map(|(_, head)| head).collect()
    }

    /// Text with the number of heads of each verdict. If no head carries the answer, it begins "none of 12 heads is shown to
    /// carry the answer".
    fn verdict_counts(&self) -> String {
        let all = format_count(self.heads.len(), "head");
        let counts = self.verdicts;
        let carry = match counts.carries {
            0 => format!("none of {all} is shown to carry the answer"),
            count => format!("{count} of {all} {} the answer", plural(&count, "carries", "carry")),
        };
        let others = [
            (counts.restores, plural(&counts.restores, "restores", "restore")),
            (counts.needed, plural(&counts.needed, "is needed", "are needed")),
            (counts.opposes, plural(&counts.opposes, "opposes", "oppose")),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0).map(|(count, does)| format!(", {count} {does}"));
        format!("{carry}{}", others.collect::<String>())
    }

    /// Clause that says why no head has a share of the gap: the gap is too uncertain. `None` if `gap_is_shown`.
    fn gap_not_shown_reason(&self) -> Option<String> {
        if self.gap_is_shown {
            return None;
        }
        let lacks = match self.gap_ci95 {
            None => format!(
                "over {} has no standard error, which takes {MIN_BLOCKS_FOR_TEST}",
                format_count(self.units, "unit")
            ),
            Some(_) => "is not 4 standard errors above 0".to_owned(),
        };
        Some(format!("the gap {lacks}, so no head has a share of it"))
    }

    /// A sentence that there are too few items for verdicts; `None` if there are enough.
    fn item_shortage_text(&self, policy: &Policy) -> Option<String> {
        let asked = [&MIN_QUERIES, &MIN_SENTENCES].map(|least| policy.count(least));
        let count =
            |[items, units]: [u64; 2]| format!("{} of {}", format_count(items, "item"), format_count(units, "unit"));
        let has = [self.items, self.units];
        let is_short = has.iter().zip(asked).any(|(has, asked)| *has < asked);
        is_short.then(|| format!("{} are too few for verdicts, which take {}", count(has), count(asked)))
    }

    fn write_summary(&self, out: &mut Summary, policy: &Policy) -> fmt::Result {
        let (Some(gap), Some(positions)) = (self.gap, self.positions) else {
            return writeln!(out, "No item of the task was run beside a corrupted text.");
        };
        let skipped = match self.items_skipped {
            0 => String::new(),
            skipped => format!(" {} of the file left out.", format_count(skipped, "item")),
        };
        let at = match positions {
            ExchangedPositions::All => "at all positions",
            ExchangedPositions::Answer => "at the position of the answer alone",
        };
        let not_lowered = whole_percent(self.not_lowered.unwrap_or(0.0));
        writeln!(
            out,
            "Contexts of heads exchanged {at} between text and corrupted text of {}, of {}: {}. It lowers the score by {gap:.3}{} nats \
             an item; the score of {not_lowered} of the items is not lowered.{skipped}",
            format_count(self.items, "item"),
            format_count(self.units, "unit"),
            self.corruption_text(),
            plus_minus(self.gap_ci95, 3),
        )?;
        if let Some(why) = self.gap_not_shown_reason() {
            return writeln!(out, "{}.", capitalize(&why));
        }
        let too_few = self.item_shortage_text(policy);
        let is_judged = !self.has_several_corruptions() && too_few.is_none();
        let found = if self.has_several_corruptions() {
            SEVERAL_CORRUPTIONS.to_owned()
        } else {
            too_few.unwrap_or_else(|| self.verdict_counts())
        };
        let (first, rest) = found.split_at(1);
        writeln!(out, "Heads exchanged one at a time: {}{rest}.", first.to_lowercase())?;
        writeln!(
            out,
            "The heads with the largest shares of the gap, ± half of the 95 % interval, and q of being above 0.05:\n"
        )?;
        out.add_table(table(self.heads_by_largest_share().into_iter().take(MAX_ROWS), is_judged));
        Ok(())
    }

    fn figure(&self) -> Option<Figure> {
        let gap = self.gap.filter(|_| self.gap_is_shown)?;
        let row = |head: &ExchangedHead| ForestRow {
            name: head.place.to_string(),
            note: head.verdicts_text(),
            marks: vec![
                Mark::from_value(head.restored, head.restored_ci95),
                Mark::from_value(head.destroyed, head.destroyed_ci95),
            ],
        };
        let rows = self.heads_by_largest_share().into_iter().map(row).collect();
        let (forest, left_out) =
            Forest::heads_with_zero_line("share of the gap", &["restored", "destroyed"], rows, "shares");
        Some(Figure {
            name: "interchange",
            title: "How much of the answer each head carries".to_owned(),
            reading: format!(
                "Under {} an item loses {gap:.3} nats of its score. Each row has the share of that which the head restores in the \
                 corrupted text, and which it destroys in the text, with 95 % intervals.{left_out}",
                self.corruption_text()
            ),
            chart: Chart::Forest(forest),
        })
    }
}

fn table<'a>(heads: impl Iterator<Item = &'a ExchangedHead>, is_judged: bool) -> comfy_table::Table {
    let q = |tests: ShareTests| tests.q_above.map_or_else(|| "-".to_owned(), significance_text);
    let row = |head: &ExchangedHead| {
        let [restored, destroyed] = head.share_texts().unwrap_or_default();
        let verdict = if is_judged { head.verdicts_text() } else { "not judged".to_owned() };
        [head.place.to_string(), restored, q(head.restored_tests), destroyed, q(head.destroyed_tests), verdict]
    };
    aligned_table(["head", "restored", "q", "destroyed", "q", "verdict"], heads.map(row), 1..5)
}
