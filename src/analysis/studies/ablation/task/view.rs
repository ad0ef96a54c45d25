//! View of the report section `task`: summary, opening sentence, figure, head cards and tables.

use std::fmt::{self, Write};

use super::section::{GroupResult, HeadOnTask, TaskResult};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::ablation::Replacement;
use crate::sequences::derived::task::TaskKind;
use crate::studies::ablation::losses::loss_unit;
use crate::studies::ablation::verdicts::{
    HeadEffect, Verdict, effect_forest, ranked_by_effect, set_verdicts, shorten_to_both_ends,
};
use crate::study::labels::evidence::{MIN_QUERIES, MIN_SENTENCES};
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext};
use crate::study::show::figure::Figure;
use crate::study::show::in_brief::Shortage;
use crate::study::show::wording::{aligned_table, decimal, plus_minus, significance_text};
use crate::study::upstream::Obstacle;
use crate::study::{InBrief, Policy, Summary, TableRows};
use crate::system::counts::{format_count, plural};

/// Largest share of items with the most frequent answer at which heads get verdicts.
///
/// Ten untrained GPT-2s were run on cloze items that all have the same answer. 101 of 120 heads would matter, since a
/// head that writes a constant favours one token.
const MAX_ONE_ANSWER_SHARE: f64 = 0.6;

/// Number of rows at each end of a shortened table. At the lower end, one of these rows counts the omitted rows.
const HALF_TABLE_ROWS: usize = 3;

/// Maximum number of helpful heads that the opening sentence names.
const MAX_NAMED_HEADS: usize = 3;

impl Section for TaskResult {
    fn add_late_fact(&mut self, completion: &LateFact<'_>) {
        let LateFact::Policy(policy) = completion else { return };
        let is_above = self.is_above_baseline(policy);
        // The baseline of classes is their most frequent one already.
        let is_of_one = !self.kind.is_some_and(TaskKind::has_class_labels)
            && self.most_frequent_answer.is_some_and(|share| share > MAX_ONE_ANSWER_SHARE);
        let enough = self.items >= policy.count(&MIN_QUERIES) && self.units >= policy.count(&MIN_SENTENCES);
        self.obstacle = match (enough, is_above, is_of_one) {
            (false, ..) => Some(Obstacle::TooFewUnits),
            (true, false, _) => Some(Obstacle::NotAboveBaseline),
            (true, true, true) => Some(Obstacle::OneAnswer),
            (true, true, false) => None,
        };
        let may_have_one = self.obstacle.is_none();
        for HeadOnTask { on_loss, .. } in &mut self.heads {
            on_loss.verdict = on_loss.single_removal_effect().filter(|_| may_have_one).map(|_| Verdict::Undecided);
            on_loss.negligible = false;
        }
        self.verdicts = set_verdicts(self.heads.iter_mut().map(|head| &mut head.on_loss), enough, policy);
    }

    fn view(&self, ViewContext { policy, .. }: ViewContext<'_>) -> View<'_> {
        let TaskResult { heads, groups, .. } = self;
        let by_group = groups.iter().flat_map(move |group| group.effect_rows(heads));
        View {
            in_brief: self.in_brief(policy),
            summary: Summary::from_writer(|out| self.write_summary(out)),
            is_above_baseline: Some(self.is_above_baseline(policy)),
            figures: figure(self).into_iter().collect(),
            tables: vec![TableRows::new("task_effects", heads), TableRows::new("task_effects_by_group", by_group)],
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, _: ViewContext<'_>) -> HeadCard {
        let is_at_place = |head: &&HeadOnTask| head.on_loss.place == place;
        let found =
            self.heads.iter().find(is_at_place).and_then(|head| Some((head, head.on_loss.single_removal_effect()?)));
        let Some((HeadOnTask { on_loss, right_effect, .. }, effect)) = found else { return HeadCard::default() };
        let (spread, unit) = (plus_minus(on_loss.ci95, 3), loss_unit(self.kind));
        let removal = self.removal.map_or("", Replacement::name);
        let right = right_effect.map_or_else(String::new, |right| format!(", {} right", points_text(right)));
        let q = on_loss.q.map_or_else(String::new, |q| format!(" (q {})", significance_text(q)));
        let line = format!(
            "without it (by {removal}) the loss of the task is {effect:+.3}{spread} {unit} an item more{right}: {}{q}",
            on_loss.verdict_text()
        );
        let (changes, by) = match on_loss.verdict {
            Some(Verdict::Helpful) => ("raises", effect),
            Some(Verdict::Harmful) => ("lowers", -effect),
            _ => return HeadCard::from_iter([line]),
        };
        let clause = format!("{changes} the loss of the task by {by:.3}{spread} {unit} an item when it is removed");
        HeadCard::from_iter([line]).with_clauses([clause])
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let TaskResult { heads, groups, .. } = self;
        let is_broken =
            |group: &&GroupResult| group.effects.len() != grid.head_count() || group.ci95.len() != grid.head_count();
        let broken = groups.iter().find(is_broken);
        let broken =
            broken.map(|group| format!("the group `{}` of `task` has not an effect of each head", group.group));
        grid.missing_head_defect("task.heads", heads.iter().map(|head| head.on_loss.place)).or(broken)
    }
}

/// A change of a share in percentage points, as text.
fn points_text(change: f64) -> String {
    format!("{:+.1} points", 100.0 * change)
}

impl TaskResult {
    fn in_brief(&self, policy: &Policy) -> InBrief {
        let TaskResult { items, units, .. } = self;
        if *items == 0 {
            return InBrief::default();
        }
        let shortage = Shortage::from_item_counts("verdicts on heads of the task", [*items, *units], policy);
        let verdict = self
            .no_verdict_reason()
            .map_or_else(|| format!(". {}", self.helpful_heads_text()), |why| format!(": {why}."));
        let found = format!("{}{verdict}", self.accuracy_text());
        InBrief { shortage, has_priority: true, ..InBrief::from_finding(found) }
    }

    fn accuracy_text(&self) -> String {
        let items = format_count(self.items, "item");
        let of_words = if self.kind == Some(TaskKind::Tag) { "the words of " } else { "" };
        let baseline = decimal(100.0 * self.baseline, 0);
        format!("The model is right on {} of {of_words}{items} of the task (baseline {baseline} %)", self.right)
    }

    /// Reason why no head has a verdict, as a sentence; `None` if heads may have one.
    fn no_verdict_reason(&self) -> Option<String> {
        let most = decimal(100.0 * self.most_frequent_answer.unwrap_or(0.0), 0);
        Some(match self.obstacle? {
            Obstacle::NotAboveBaseline => {
                "it is not shown to be above the baseline, so no head has a verdict".to_owned()
            }
            Obstacle::OneAnswer => {
                format!("one answer is right for {most} % of the items, so no head has a verdict: mix the answers")
            }
            Obstacle::TooFewUnits => {
                let (items, units) = (format_count(self.items, "item"), format_count(self.units, "unit"));
                format!("{items} of {units} {} too few for a verdict on heads", plural(&self.items, "is", "are"))
            }
        })
    }

    /// Number of heads that were removed alone.
    fn removed_count(&self) -> usize {
        self.heads.iter().filter(|head| head.on_loss.single_removal_effect().is_some()).count()
    }

    /// Number of heads that are removed throughout the run (`--remove`).
    fn permanent_removal_count(&self) -> usize {
        self.heads.iter().filter(|head| head.on_loss.removed).count()
    }

    /// Sentence that says how many heads were removed alone; empty if all were.
    fn chosen_heads_text(&self) -> String {
        let (removed, present) =
            (self.removed_count(), self.heads.len().saturating_sub(self.absent_heads + self.permanent_removal_count()));
        if removed >= present {
            return String::new();
        }
        format!(
            " Removed by itself: {removed} of {}, chosen by the derivative on the even blocks; all of this is over the odd blocks.",
            format_count(present, "head"),
        )
    }

    /// Sentence on how many heads are shown to help the task. If none is, the sentence does not claim that no head
    /// matters.
    fn helpful_heads_text(&self) -> String {
        let (helpful, heads) = (self.verdicts.helpful, format_count(self.removed_count(), "head"));
        let shown = match helpful {
            0 => return format!("None of {heads} is shown to matter for this task, each removed alone."),
            _ => format!("{helpful} of {heads} {}", plural(&helpful, "is", "are")),
        };
        let by_score = if self.right_without_heads >= self.right.share {
            ", by its score alone: without any head no fewer items are right"
        } else {
            ""
        };
        let harm = match self.verdicts.harmful {
            0 => String::new(),
            harmful => format!(", and {harmful} to harm it"),
        };
        let most: Vec<String> =
            self.heads_by_effect().iter().take(MAX_NAMED_HEADS).map(|(_, of)| of.on_loss.place.to_string()).collect();
        let most = if helpful > most.len() as u64 { format!(" (most {})", most.join(", ")) } else { String::new() };
        let removal = self.removal.map_or_else(String::new, |removal| format!(" (by {})", removal.name()));
        format!("{shown} shown to matter for this task{most}{harm}, each removed alone{removal}{by_score}.")
    }

    /// Heads that were removed alone with their effects, the largest first.
    fn heads_by_effect(&self) -> Vec<(f64, &HeadOnTask)> {
        ranked_by_effect(&self.heads, |head| &head.on_loss)
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let Self { removal, loss, loss_without_heads, right_without_heads, loss_ci95, band, groups, .. } = self;
        let (Some(removal), Some(loss), Some(bare), Some(band)) = (removal, loss, loss_without_heads, band) else {
            return writeln!(out, "No item of the task was scored, so no head was removed.");
        };
        let skipped = match self.items_skipped {
            0 => String::new(),
            skipped => format!(" {} of the file cannot be scored.", format_count(skipped, "item")),
        };
        let (unit, units) = (loss_unit(self.kind), format_count(self.units, "unit"));
        let bare_right = right_without_heads.map_or_else(|| "-".to_owned(), |right| decimal(100.0 * right, 1));
        let (can_do, spread, chosen) = (self.accuracy_text(), plus_minus(*loss_ci95, 3), self.chosen_heads_text());
        writeln!(
            out,
            "{can_do}, of {units}; the loss, minus the mean score of an item, is {loss:.3}{spread} {unit}. Without any head {bare_right} % \
             are right and the loss is {bare:.3}.{skipped}{chosen}",
        )?;
        let found = self.no_verdict_reason().unwrap_or_else(|| {
            let (heads, verdicts) = (format_count(self.removed_count(), "head"), self.verdicts.counts_text());
            format!("of {heads} {verdicts}; negligible is an effect that is surely within ±{band:.4}")
        });
        writeln!(out, "Heads removed one at a time (by {}): {found}.", removal.name())?;
        writeln!(
            out,
            "The heads with the largest and smallest effects on the loss, ± half of the 95 % interval, q (false-discovery rate), and \
             the change in the share right:\n"
        )?;
        let order = self.heads_by_effect();
        out.add_table(table(&order));
        if !groups.is_empty() {
            writeln!(out, "\nBy group:\n")?;
            out.add_table(group_table(groups, &self.heads));
        }
        Ok(())
    }
}

fn table(heads: &[(f64, &HeadOnTask)]) -> comfy_table::Table {
    let row = |(effect, HeadOnTask { on_loss, right_effect, .. }): &(f64, &HeadOnTask)| {
        let effect = format!("{effect:+.4}{}", plus_minus(on_loss.ci95, 4));
        let q = on_loss.q.map_or_else(|| "-".to_owned(), significance_text);
        let right = right_effect.map_or_else(|| "-".to_owned(), points_text);
        vec![on_loss.place.to_string(), effect, q, right, on_loss.verdict_text()]
    };
    let rows = shorten_to_both_ends(heads.iter().map(row).collect(), HALF_TABLE_ROWS);
    aligned_table(["head", "effect", "q", "right", "verdict"], rows, 1..4)
}

fn group_table(groups: &[GroupResult], heads: &[HeadOnTask]) -> comfy_table::Table {
    let row = |GroupResult { group, items, right, effects, ci95, .. }: &GroupResult| {
        let measured =
            heads.iter().zip(effects).zip(ci95).filter_map(|((head, size), ci95)| Some(((*size)?, ci95, head)));
        let largest = measured.max_by(|a, b| a.0.total_cmp(&b.0));
        let largest = largest.map_or_else(String::new, |(effect, ci95, head)| {
            format!("{} {effect:+.4}{}", head.on_loss.place, plus_minus(*ci95, 4))
        });
        [group.clone(), items.to_string(), right.to_string(), largest]
    };
    aligned_table(["group", "items", "right", "largest effect"], groups.iter().map(row), 1..3)
}

fn figure(task: &TaskResult) -> Option<Figure> {
    let (loss, bare, unit) = (task.loss?, task.loss_without_heads?, loss_unit(task.kind));
    let order: Vec<&HeadEffect> = task.heads_by_effect().into_iter().map(|(_, head)| &head.on_loss).collect();
    let scale = format!("rise of the loss of the task without the head, in {unit} an item");
    let (chart, left_out) = effect_forest(&scale, &order);
    Some(Figure {
        name: "task-effects",
        title: "What the model loses of the task without each head".to_owned(),
        reading: format!(
            "{}; the loss is {loss:.3} {unit} an item with all {}heads and {bare:.3} without any. Each row is the loss with one head \
             removed less that with all heads, with its 95 % interval.{left_out}",
            task.accuracy_text(),
            if task.permanent_removal_count() > 0 { "other " } else { "" },
        ),
        chart,
    })
}
