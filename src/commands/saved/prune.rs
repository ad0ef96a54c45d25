//! `headscope prune`: writes a model without some of its heads, as a folder that loads wherever the model does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use itertools::Itertools as _;

use crate::export::json;
use crate::model::PendingHashes;
use crate::model::files::ModelFiles;
use crate::model::grid::HeadPlace;
use crate::model::source::ModelRef;
use crate::model::weights::pruned::{PrunedWeights, RemovedHeads, is_weight_file};
use crate::passes::ablation::Replacement;
use crate::report::Report;
use crate::study::section::{PruningOrder, ShareOf};
use crate::system::counts::plural;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::files::folder::{OutputFolder, files_below};
use crate::system::printable::one_line;
use crate::system::progress::Downloads;
use crate::system::terminal::print;

/// Allowed cost of pruning, by which heads are chosen from a report.
pub struct PruningBudget {
    /// Allowed rise of the loss or fall of the accuracy, as a share of `measure`.
    pub max_cost: f64,
    pub measure: ShareOf,
    /// Name of the pruning order; `None`: the first order of the report.
    pub order: Option<String>,
}

/// Heads to remove from the model, with their replacement.
struct ChosenHeads {
    heads: RemovedHeads,
    removal: Replacement,
    /// Sentence with the loss or accuracy after removal, as measured in the report; `None` if the user named the heads.
    cost_in_words: Option<String>,
}

/// Writes a model without the named heads, or without heads chosen from `report`, and prints which were removed.
/// `report`: a saved report with the study `pruning`, and the allowed cost of removing heads.
/// Fails if the model or the report cannot be used, the report is of another model, or the folder cannot be written.
pub fn prune(
    model: &ModelRef,
    named: Option<&BTreeSet<HeadPlace>>,
    report: Option<&(PathBuf, PruningBudget)>,
    output: &Path,
) -> Result<()> {
    let folder = OutputFolder::open(output)?;
    let files = model.resolve(&Downloads::default())?;
    let chosen = choose_heads(named, report, &files)?;
    let weights = PrunedWeights::new(&files, &chosen.heads)?;
    let subfolder = files.folders().map(|(_, subfolder)| subfolder).unwrap_or_default();
    let names: Vec<PathBuf> = weights.names().iter().map(|name| subfolder.join(name)).collect();
    let not_copied = copy_other_files(&files, &folder, &names)?;
    for (number, name) in names.iter().enumerate() {
        folder.write_file(name, |file| weights.write(number, file))?;
    }
    if let Some((name, index)) = weights.index().class(ErrorClass::Model)? {
        folder.write_file(&subfolder.join(name), |file| file.write_all(index.as_bytes()).class(ErrorClass::Output))?;
    }
    folder.commit()?;
    print(&summary(output, &files, &chosen, &not_copied))
}

/// Chooses the named heads, or the heads whose removal the report shows to cost no more than the budget.
fn choose_heads(
    named: Option<&BTreeSet<HeadPlace>>,
    report: Option<&(PathBuf, PruningBudget)>,
    files: &ModelFiles,
) -> Result<ChosenHeads> {
    let Some((path, budget)) = report else {
        let heads = named.into_iter().flatten().map(|&head| (head, None)).collect();
        return Ok(ChosenHeads { heads, removal: Replacement::Zero, cost_in_words: None });
    };
    let name = path.display().to_string();
    let report = json::parse_for_display(&name, &json::read_text(path)?)?;
    ensure_same_model(&name, &report, files).class(ErrorClass::Input)?;
    let order = pruning_order(&name, &report, budget)?;
    ensure!(
        order.removal != Replacement::Mean,
        anyhow!("`{name}` removed heads by their means, one for each class of tokens, which no model file can hold")
            .with_file(&name)
            .hint("analyse again with `--with pruning --removal constant`, or with `--removal zero`")
            .class(ErrorClass::Input)
    );
    let (heads, cost) = if let Some(named) = named {
        let heads = order.heads.iter().filter(|(head, _)| named.contains(head)).cloned().collect();
        let strays = named.iter().filter(|head| order.heads.iter().all(|(known, _)| known != *head));
        (strays.map(|head| (*head, None)).chain::<RemovedHeads>(heads).collect(), None)
    } else {
        ensure!(
            order.is_above_baseline != Some(false),
            anyhow!("by `{name}` the model is not shown to be above the baseline of the task, so nothing says which heads can go")
                .with_file(&name)
                .hint("give a report on a task that the model can do, or name heads: `--heads L0H1,L3H2`")
                .class(ErrorClass::Input)
        );
        let count = order.removable_heads(budget.max_cost, budget.measure).with_context(|| {
            let measures = order.budgets.iter().map(|(measure, ..)| measure.noun_phrase());
            let measures = measures.sorted_unstable().dedup().join(" and of ");
            format!("`{name}` has no shares of {}: it has shares of {measures}", budget.measure.noun_phrase())
        });
        let count = if order.accuracies.is_some() { count.hint("give `--of right`") } else { count };
        let count = count.with_option("of").class(ErrorClass::Usage)?;
        ensure!(
            count > 0,
            anyhow!(
                "no head can go by `{name}` within {}: {}",
                budget.in_words(),
                first_head_cost(&order, budget.measure)
            )
            .with_option("budget")
            .hint("give a larger --budget")
            .class(ErrorClass::Usage)
        );
        let without = order.losses_without[count - 1];
        let right = order.accuracies.as_ref().map_or_else(String::new, |(right, without)| {
            format!(", and the share right from {:.1} to {:.1} %", 100.0 * right, 100.0 * without[count - 1])
        });
        let cost = format!(
            "Within {}, in the order by {}: over the half of the report's sample that did not choose it, the loss goes from {:.4} to \
             {without:.4} {} ({:+.4}){right}.\n",
            budget.in_words(),
            one_line(&order.criterion),
            order.loss,
            order.unit,
            without - order.loss
        );
        (order.heads[..count].iter().cloned().collect(), Some(cost))
    };
    Ok(ChosenHeads { heads, removal: order.removal, cost_in_words: cost })
}

fn ensure_same_model(name: &str, report: &Report, files: &ModelFiles) -> Result<()> {
    let hashes = PendingHashes::spawn(files).finish()?;
    let report_hashes = (&report.model.config_sha256, &report.model.weights_sha256);
    ensure!(
        report_hashes == (&hashes.config, &hashes.weights),
        anyhow!("`{name}` reports on `{}`, whose weights differ from those of `{}`", report.model.id, files.id)
            .with_file(name)
            .hint("analyse this model with `--with pruning`, and give that report")
    );
    Ok(())
}

fn pruning_order(name: &str, report: &Report, budget: &PruningBudget) -> Result<PruningOrder> {
    let orders: Vec<PruningOrder> = report.section_views().flat_map(|(_, view)| view.pruning).collect();
    let names = orders.iter().map(|order| one_line(&order.criterion)).join(", ");
    let is_named = |order: &PruningOrder| budget.order.as_ref().is_none_or(|name| *name == order.criterion);
    match (orders.into_iter().find(is_named), &budget.order) {
        (Some(order), _) => Ok(order),
        (None, Some(by)) if !names.is_empty() => {
            let error = anyhow!("`{name}` has no order by `{by}`: there are {names}").with_option("by").with_value(by);
            Err(error).class(ErrorClass::Usage)
        }
        _ => Err(anyhow!("`{name}` says nothing about pruning").hint("analyse the model with `--with pruning`"))
            .class(ErrorClass::Input),
    }
}

impl PruningBudget {
    /// Text of the budget, such as `1 % of the loss`.
    fn in_words(&self) -> String {
        // Rounded, since the product of floats for 0.0001 % has sixteen digits.
        format!("{} % of {}", (1e12 * self.max_cost).round() / 1e10, self.measure.noun_phrase())
    }
}

/// Text on the accuracy (with [`ShareOf::Right`]) or loss without the first head of a pruning order.
fn first_head_cost(order: &PruningOrder, measure: ShareOf) -> String {
    if let (ShareOf::Right, Some((right, without)), Some((head, _))) = (measure, &order.accuracies, order.heads.first())
        && let Some(without) = without.first()
    {
        let [right, without] = [right, without].map(|share| format!("{:.1} %", 100.0 * share));
        return format!(
            "{right} are right with all heads and {without} without {head}, the first in the order by {}",
            one_line(&order.criterion)
        );
    }
    let first = order.heads.first().zip(order.losses_without.first());
    first.map_or_else(String::new, |((head, _), without)| {
        format!(
            "the loss of {:.4} {} is {without:.4} without {head}, the first in the order by {}",
            order.loss,
            order.unit,
            one_line(&order.criterion)
        )
    })
}

/// Copies all files of a model except weights.
/// Returns the names of weight files that are neither copied nor pruned.
fn copy_other_files(files: &ModelFiles, folder: &OutputFolder, written: &[PathBuf]) -> Result<Vec<String>> {
    let Some((root, subfolder)) = files.folders() else {
        for file in [&files.config].into_iter().chain(files.tokenizer.iter().map(|(_, file)| file)) {
            let name = file.path().file_name().map(PathBuf::from).unwrap_or_default();
            folder.write_file(&name, |out| out.write_all(&file.bytes(file.size())?).class(ErrorClass::Output))?;
        }
        return Ok(Vec::new());
    };
    let mut not_copied = Vec::new();
    for name in files_below(&root)? {
        // Modules of sentence encoders, such as `2_Dense`, have weights of their own.
        let is_module_file =
            name.parent() != Some(&subfolder) && name.to_string_lossy().starts_with(|c: char| c.is_ascii_digit());
        if !is_weight_file(&name) || is_module_file {
            folder.copy(&root.join(&name), &name)?;
        } else if !written.contains(&name) {
            not_copied.push(one_line(&name.display().to_string()));
        }
    }
    Ok(not_copied)
}

fn summary(output: &Path, files: &ModelFiles, chosen: &ChosenHeads, not_copied: &[String]) -> String {
    let mut by_layer: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for HeadPlace { layer, head } in chosen.heads.keys() {
        by_layer.entry(*layer).or_default().push(head.to_string());
    }
    let count = chosen.heads.len();
    let mut text = format!(
        "`{}` is `{}` without {} of {} heads, removed by {}:\n",
        output.display(),
        files.id,
        count,
        files.grid().head_count() - files.architecture.config.absent.len(),
        chosen.removal.name()
    );
    let line = |(layer, heads): (usize, Vec<String>)| {
        format!("  layer {layer}: {} {}\n", plural(&heads.len(), "head", "heads"), heads.join(" "))
    };
    let note = (!not_copied.is_empty()).then(|| {
        let (verb, not_copied) = (plural(&not_copied.len(), "is", "are"), not_copied.join(", "));
        format!("Not copied {verb} {not_copied}, with the weights of the whole model.\n")
    });
    text.extend(by_layer.into_iter().map(line).chain(chosen.cost_in_words.clone()).chain(note));
    text
}
