//! What it costs to remove every head: `cargo bench --bench removal -- MODEL_DIR [PACKS]`.
//!
//! Packs of sentences of 25 random tokens, three of them masked, go through a model with its masked-LM head on one thread:
//! once whole; in ablated runs, each starting below the layer of the head that is missing; and, for comparison, without each head
//! from the embeddings on. Printed are the best of three of each, in seconds, and as whole passes.

use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use headscope::model::Model;
use headscope::model::forward::gates::Gate;
use headscope::model::forward::visitor::Needs;
use headscope::model::grid::HeadGrid;
use headscope::model::grid::visibility::LayerClasses;
use headscope::model::parameters::Objective;
use headscope::model::source::ModelRef;
use headscope::passes::observer::requests::{HeadSet, all_heads, single_head_sets};
use headscope::passes::observer::set::ObserverSet;
use headscope::passes::observer::{Demands, Event, FurtherRuns, Sums, new_observer};
use headscope::passes::run::variants::{AblationVariant, Variants};
use headscope::passes::run::workers::sum_activations;
use headscope::sequences::fold::words::FromToken;
use headscope::sequences::sequence::{PredictedToken, Sequence, TokenKind};
use headscope::stats::blocks::Merge;
use headscope::stats::surprisal::surprisal;
use headscope::system::progress::Downloads;
use headscope::system::progress::run::RunProgress;
use serde::{Deserialize, Serialize};

/// Tokens of a sentence, with the two special ones.
const TOKENS: usize = 25;

/// Sentences of a pack.
const SENTENCES: usize = 20;

/// The sum of all losses, so that nothing is left out as of no use.
#[derive(Clone, Serialize, Deserialize)]
struct Losses {
    variants: Vec<HeadSet>,
    sum: f64,
}

impl Merge for Losses {
    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
    }
}

impl Sums for Losses {
    type SequenceState = ();

    fn demands(&self) -> Demands {
        Demands {
            needs: Needs { logits: true, ..Needs::default() },
            further_runs: FurtherRuns::Ablations(self.variants.clone()),
            ..Demands::default()
        }
    }

    fn begin(&mut self, _: &Sequence) -> Option<()> {
        Some(())
    }

    fn observe(&mut self, state: &mut Self::SequenceState, event: &mut Event<'_>) {
        if let Event::Logits { position, logits } = event {
            self.logits(state, *position, logits);
        }
    }

    fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        true
    }
}

impl Losses {
    fn logits(&mut self, (): &mut (), _: usize, logits: &[f32]) {
        self.sum += surprisal(logits, 7);
    }
}

fn sentences(packs: usize, vocabulary: usize) -> impl Iterator<Item = Result<Sequence>> + Send {
    (0..packs * SENTENCES).map(move |index| {
        let id = |place: usize| u32::try_from((index * TOKENS + place) * 7919 % vocabulary).expect("a token id");
        let mut kinds = vec![TokenKind::Text; TOKENS];
        (kinds[0], kinds[TOKENS - 1]) = (TokenKind::FirstSpecial, TokenKind::Separator);
        let masked = [3, 10, 17].map(|position| PredictedToken::masked(position, position, Some(7)));
        Ok(Sequence {
            index: index as u64,
            ids: (0..TOKENS).map(id).collect(),
            segments: vec![0; TOKENS],
            kinds,
            predictions: masked.to_vec(),
            ..Sequence::default()
        })
    })
}

/// The best of three times of these variants, in seconds.
fn time(model: &Model, variants: &Variants, packs: usize) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let asked = variants.ablation_variants.iter().map(|variant| variant.removed.clone()).collect();
        let observers = ObserverSet::new(vec![new_observer(Losses { variants: asked, sum: 0.0 })]);
        let (started, progress) = (Instant::now(), RunProgress::default());
        let sequences = sentences(packs, model.architecture.config.vocab_size);
        sum_activations(
            observers,
            (&model.id, &*model.encoder),
            variants,
            sequences,
            NonZeroUsize::MIN,
            &progress,
            None,
        )?;
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let Some(folder) = arguments.first() else {
        println!("name a model with a masked-LM head: cargo bench --bench removal -- MODEL_DIR [PACKS]");
        return Ok(());
    };
    let packs = arguments.get(1).map_or(Ok(1), |packs| packs.parse()).context("PACKS is a number")?;
    let model = Model::load_with_prediction(ModelRef::parse(folder).resolve(&Downloads::default())?)?;
    ensure!(model.objective == Some(Objective::MaskedTokens), "`{folder}` has no masked-LM head");
    let grid = model.grid();
    let gates = vec![Gate::from_factor(0.0); grid.head_count()];
    let removed = single_head_sets(grid).chain([all_heads(grid)]);
    let variants = Variants::default().with_removals(removed, grid, &gates);
    let naive = |variant: &AblationVariant| Variants::baseline_only(variant.gates.clone());

    let whole = time(&model, &Variants::default(), packs)?;
    let ablated = time(&model, &variants, packs)?;
    let mut alone = 0.0;
    for variant in &variants.ablation_variants {
        alone += time(&model, &naive(variant), packs)?;
    }
    let heads = grid.head_count() as f64;
    println!("{} tokens, {} layers of {} heads", packs * SENTENCES * TOKENS, grid.layers, grid.heads);
    println!("one whole pass                 {whole:8.3} s");
    println!(
        "all heads in turn              {ablated:8.3} s = {:.2} passes, {:.3} a head",
        ablated / whole,
        ablated / whole / heads
    );
    println!("each from the embeddings on    {:8.3} s = {:.2} passes", alone + whole, (alone + whole) / whole);
    Ok(())
}
