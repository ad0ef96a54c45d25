//! Sums and metrics over random tokens that occur twice, and the label of heads that copy.

use std::collections::BTreeMap;

use anstyle::AnsiColor;
use serde::{Deserialize, Serialize};

use crate::model::forward::Encoder;
use crate::model::forward::rows::Rows;
use crate::model::forward::visitor::{Needs, ResidualPart};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::ablation::PassConditions;
use crate::passes::observer::{Demands, Event, HeadInput, Sums};
use crate::passes::setup::PassSetup;
use crate::sequences::derived::repeats::Copies;
use crate::sequences::fold::words::FromToken;
use crate::sequences::sequence::Sequence;
use crate::stats::blocks::{Blocks, block_of, merge_fields};
use crate::stats::exact::ExactSum;
use crate::studies::ablation::losses::{Losses, ScoredToken, loss_at, scored_tokens_where};
use crate::studies::ablation::removal::{LossQuantity, RemovalQuantity, RemovalSums, SingleHeadsAndAll};
use crate::study::labels::evidence::LABEL_Q;
use crate::study::labels::policy::Threshold;
use crate::study::labels::{Assessment, Detector, LabelStyle, ThresholdBound, VerbPhrase, assess};
use crate::study::metrics::explanation::Explanation;
use crate::study::metrics::metric::{Fraction, HeadMetric, Metric};

/// Losses of both copies of random tokens, with all heads, by block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopySums {
    grid: HeadGrid,
    pub blocks: Blocks<CopyLosses>,
}

merge_fields!(CopySums[grid] { blocks });

impl CopySums {
    pub fn new(grid: HeadGrid) -> Self {
        Self { grid, blocks: Blocks::new(CopyLosses::new(0)) }
    }
}

impl Sums for CopySums {
    /// Block of the sequence, and its scored tokens, each with the index of the copy that it is in (0 or 1).
    type SequenceState = (usize, Vec<ScoredToken<usize>>);

    fn demands(&self) -> Demands {
        Demands::from_needs(CopyLosses::needs(&PassConditions::default()))
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<Self::SequenceState> {
        let block = block_of(sequence.family.number);
        Some((block, self.blocks[block].begin(sequence, 0)?))
    }

    fn observe(&mut self, (block, scored): &mut Self::SequenceState, event: &mut Event<'_>) {
        if let Event::Logits { position, logits } = event {
            self.blocks[*block].add_logits(scored, None, *position, logits);
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.blocks.is_valid(|losses| losses.has_variants(0))
    }
}

pub type RemovalCopySums = RemovalSums<SingleHeadsAndAll, CopyLosses>;

/// Losses of the two copies of random tokens. The first token of each copy is not scored, since different tokens
/// precede it in the two copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyLosses {
    /// Losses of the `[first, second]` copy.
    pub copies: [Losses; 2],
}

merge_fields!(CopyLosses { copies });

impl CopyLosses {
    /// Summed loss of the first copy minus summed loss of the second, in nats, with all heads (`None`) or in an
    /// ablation variant.
    pub fn gain(&self, variant: Option<usize>) -> f64 {
        let [first, second] = self.summed_losses(variant);
        first - second
    }

    /// Summed losses of the `[first, second]` copy, in nats, with all heads (`None`) or in an ablation variant.
    pub fn summed_losses(&self, variant: Option<usize>) -> [f64; 2] {
        self.copies.each_ref().map(|copy| copy.total_loss(variant))
    }

    pub fn tokens(&self) -> u64 {
        self.copies[1].tokens
    }
}

impl RemovalQuantity for CopyLosses {
    type State = Vec<ScoredToken<usize>>;

    fn new(variants: usize) -> Self {
        Self { copies: [Losses::new(variants), Losses::new(variants)] }
    }

    fn begin(&mut self, sequence: &Sequence, _: usize) -> Option<Self::State> {
        let copies = Copies::find(sequence)?;
        let scored = scored_tokens_where(sequence, |word| copies.copy_of_token(sequence.words[word].start()));
        for token in &scored {
            self.copies[token.word_data].tokens += 1;
        }
        self.copies.iter_mut().for_each(|copy| copy.sentences += 1);
        (!scored.is_empty()).then_some(scored)
    }

    fn add_logits(&mut self, state: &Self::State, variant: Option<usize>, position: usize, logits: &[f32]) {
        if let Some((loss, &copy)) = loss_at(state, position, logits) {
            self.copies[copy].add(variant, loss);
        }
    }

    fn has_variants(&self, variants: usize) -> bool {
        let [first, second] = &self.copies;
        self.copies.iter().all(|copy| copy.has_variants(variants)) && first.tokens == second.tokens
    }
}

/// Sums of one head over its scored queries. A scored query is in the second copy and attends most to a text token
/// other than itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadCopyTotals {
    pub queries: u64,
    pub sequences: u64,
    /// Direct effect on the logit of the most attended token, minus the mean over the other tokens of the first copy,
    /// summed over queries.
    pub logit: ExactSum,
    /// Share of the other tokens of the first copy with a smaller direct effect than the most attended token, summed
    /// over queries. Ties count one half.
    pub rank: ExactSum,
}

merge_fields!(HeadCopyTotals { queries, sequences, logit, rank });

/// Sums over the queries of the second copy in one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiesBlock {
    pub queries: u64,
    pub sequences: u64,
    /// Totals of each head, `[layers * heads]`.
    pub heads: Vec<HeadCopyTotals>,
}

merge_fields!(CopiesBlock { queries, sequences, heads });

/// Sums of the metrics that ask whether a head copies the token that it attends to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CopyingSums {
    grid: HeadGrid,
    pub blocks: Blocks<CopiesBlock>,
    /// Whether direct effects on logits are defined for the model ([`Encoder::has_direct_effects`]).
    #[serde(skip)]
    pub has_direct_effects: bool,
}

merge_fields!(CopyingSums[grid] { blocks });

impl CopyingSums {
    pub fn new(grid: HeadGrid) -> Self {
        let empty = CopiesBlock { heads: vec![HeadCopyTotals::default(); grid.head_count()], ..CopiesBlock::default() };
        Self { grid, blocks: Blocks::new(empty), has_direct_effects: false }
    }

    fn observe_head(&self, state: &mut CopyingState, input: &HeadInput<'_>) {
        let copies = &state.copies;
        let second = copies.text.start + copies.copy_distance;
        let target = |query: usize| {
            let row = &input.attention().row(query)[..=query];
            // Ties go to the first key.
            let largest = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(key, _)| key);
            let key = largest.filter(|key| copies.text.contains(key) && *key != query)?;
            Some((query, copies.index_in_first_copy(key)))
        };
        let queries = (second..second + copies.copy_length).filter_map(target).collect();
        state.queries.insert(self.grid.index(input.view.layer, input.view.head), queries);
    }

    fn add_direct_effects(&mut self, state: &mut CopyingState, place: usize, effects: Rows<'_>) {
        let sums = &mut self.blocks[state.block].heads[place];
        let first_copy = &state.tokens[..state.copies.copy_length];
        let before = sums.queries;
        for (query, target) in state.queries.remove(&place).unwrap_or_default() {
            let effects = effects.row(query);
            let own = f64::from(effects[target]);
            // Further occurrences of the target token in the copy are left out.
            let is_other = |(token, _): &(&u32, &f32)| **token != state.tokens[target];
            let others: Vec<f64> =
                first_copy.iter().zip(effects).filter(is_other).map(|(_, &effect)| f64::from(effect)).collect();
            if others.is_empty() {
                continue;
            }
            let count = others.len() as f64;
            // Ties count half, so a head that writes nothing has 0.5.
            let below = |other: &f64| if *other < own { 1.0 } else { f64::from(u8::from(*other == own)) / 2.0 };
            sums.queries += 1;
            sums.rank += others.iter().map(below).sum::<f64>() / count;
            state.effects.push((place, query, own - others.iter().sum::<f64>() / count));
        }
        sums.sequences += u64::from(sums.queries > before);
    }
}

#[derive(Debug)]
pub struct CopyingState {
    block: usize,
    copies: Copies,
    /// Ids of the tokens whose direct effects are compared: the first copy, then the tokens between the copies.
    tokens: Vec<u32>,
    /// Scored queries of each head in the current layer, as `(query position, index in tokens of the most attended
    /// token)`.
    queries: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Direct effects before division by the final norm's scale, as `(head index, query position, effect)`.
    effects: Vec<(usize, usize, f64)>,
}

impl Sums for CopyingSums {
    type SequenceState = CopyingState;

    fn demands(&self) -> Demands {
        Demands::from_needs(Needs {
            attention: self.has_direct_effects,
            direct: self.has_direct_effects,
            ..Needs::default()
        })
    }

    fn begin_pass(&mut self, setup: &PassSetup<'_>) {
        self.has_direct_effects = setup.encoder.is_some_and(Encoder::has_direct_effects);
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<CopyingState> {
        let block = block_of(sequence.family.number);
        let copies = Copies::find(sequence).filter(|_| self.has_direct_effects)?;
        self.blocks[block].queries += copies.copy_length as u64;
        self.blocks[block].sequences += 1;
        let tokens = sequence.compared_tokens.clone();
        Some(CopyingState { block, copies, tokens, queries: BTreeMap::new(), effects: Vec::new() })
    }

    fn observe(&mut self, state: &mut CopyingState, event: &mut Event<'_>) {
        match event {
            Event::Head(input) => self.observe_head(state, input),
            Event::DirectEffects { part: ResidualPart::Head { layer, head }, effects } => {
                self.add_direct_effects(state, self.grid.index(*layer, *head), *effects);
            }
            Event::FinalNorm(norm) => {
                for (place, query, effect) in state.effects.drain(..) {
                    self.blocks[state.block].heads[place].logit += effect / f64::from(norm.scales[query]);
                }
            }
            _ => {}
        }
    }

    fn fits(&self, grid: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        self.grid == grid && self.blocks.is_valid(|block| block.heads.len() == grid.head_count())
    }
}

/// Fall of the in-context gain per token when the head is removed; 0, its chance level, for `None`. The gain is the
/// loss of the first copy minus the loss of the second.
pub fn gain_effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let lost = head.map_or(0.0, |head| losses.gain(None) - losses.gain(Some(head)));
    Fraction::mean(lost, losses.tokens(), losses.copies[1].sentences)
}

/// Rise of the second copy's loss per token when the head is removed. `None`: the chance level, 0. Unlike
/// [`gain_effect`], the rise is 0 for a head whose removal changes only the first copy.
pub fn copy_effect(losses: &CopyLosses, head: Option<usize>) -> Fraction {
    let second = |variant: Option<usize>| losses.summed_losses(variant)[1];
    let lost = head.map_or(0.0, |head| second(Some(head)) - second(None));
    Fraction::mean(lost, losses.tokens(), losses.copies[1].sentences)
}

pub fn copying_values(block: &CopiesBlock, head: Option<usize>) -> Vec<Fraction> {
    let all = HeadCopyTotals { queries: block.queries, sequences: block.sequences, ..HeadCopyTotals::default() };
    let sums = head.map_or(&all, |head| &block.heads[head]);
    let value = |metric: &CopyingMetric| {
        let counted = if metric.explanation.name == "copy_scored" { &all } else { sums };
        let above = match metric.chance.filter(|_| head.is_none()) {
            Some(chance) => chance(sums) * counted.queries as f64,
            None => (metric.value)(sums),
        };
        Fraction::mean(above, counted.queries, counted.sequences)
    };
    COPYING_METRICS.iter().map(value).collect()
}

/// Metric of a head's copying. Its value is a sum of [`HeadCopyTotals`] divided by the number of queries.
type CopyingMetric = Metric<fn(&HeadCopyTotals) -> f64>;

const DIRECT_EFFECT_SOURCES: &str = "Direct effects: Elhage et al. 2021 (transformer-circuits.pub); of induction heads on what they copy: Olsson et al. 2022 \
    (arXiv:2209.11895), there by the change of the logit.";
const DIRECT_CAVEATS: &str = "By the direct path alone. Over the queries of `copy_scored`. Null where logits are not linear in what heads \
    write (a layer behind the final norm, norms of what is written).";

pub const COPYING_METRICS: &[CopyingMetric] = &[
    CopyingMetric::single(|sums| sums.logit.value()).with_chance(|_| 0.0).with_explanation(Explanation {
        name: "copy_logit",
        measures: "How much what the head writes raises the logit of the token that it attends to most, beyond the other tokens of the \
            copy.",
        formula: "copy_logit = mean over queries i of the second copy of random tokens of D(t) - mean of D over the other tokens of the \
            copy, t the token of largest weight; D(t) = <o_i, g * u_t> / s_i, o_i the output of the head, u_t the vector of the token \
            in the head that predicts, g and s_i weights and scale of the final norm, both centred where that is LayerNorm",
        chance: "0: the token is raised as others are",
        source: DIRECT_EFFECT_SOURCES,
        caveats: DIRECT_CAVEATS,
    }),
    CopyingMetric::single(|sums| sums.rank.value()).with_chance(|_| 0.5).with_explanation(Explanation {
        name: "copy_rank",
        measures: "The share of the other tokens of the copy whose logit the head raises less than that of the token that it attends to \
            most.",
        formula: "copy_rank = mean over the same queries of the share of the other tokens of the copy with a smaller D, equal ones half",
        chance: "0.5: the token is raised as others are",
        source: "Defined here: against the mean of the whole vocabulary a head that writes a constant seems to copy.",
        caveats: DIRECT_CAVEATS,
    }),
    CopyingMetric::single(|sums| sums.queries as f64).with_chance(|_| f64::NAN).with_explanation(Explanation {
        name: "copy_scored",
        measures: "The share of the queries of the second copy whose largest weight is on another token of text: those that `copy_logit` \
            and `copy_rank` are over.",
        formula: "copy_scored = queries of the second copy whose largest weight is on another token of text / queries of the second copy",
        chance: "none",
        source: "Defined here.",
        caveats: "A head that rests on the first token is scored on few queries.",
    }),
];

pub const METRICS: &[HeadMetric<CopyLosses>] = &[
    HeadMetric::single(gain_effect).with_explanation(Explanation {
        name: "in_context_effect",
        measures: "How much of what a decoder gains from having read the same tokens before goes away without the head.",
        formula: "in_context_effect = (g - g') / tokens of a copy, in nats; g = the sum of -ln p over the tokens of the first copy \
            less that over the second, each behind the same token, with the head, and g' without it",
        chance: "0: the gain does not go by the head",
        source: "The loss early in the context less that late: Olsson et al. 2022 (arXiv:2209.11895), \"in-context learning score\", \
            there on text; on repeated random tokens and head by head, defined here.",
        caveats: "Other heads can compensate, so that a group may matter although none of its heads does. It depends on what stands for the \
            head (`settings.ablation`).",
    }),
    HeadMetric::single(copy_effect).with_explanation(Explanation {
        name: "copy_effect",
        measures: "How much more the second copy of random tokens loses without the head.",
        formula: "copy_effect = (L2' - L2) / tokens of a copy, in nats; L2 = the sum of -ln p over the tokens of the second copy with \
            the head, and L2' without it",
        chance: "0: the second copy does not go by the head",
        source: "Defined here.",
        caveats: "Tokens of both copies may cost more without a head that says what any text is like: a part in copying needs \
            `in_context_effect` too.",
    }),
];

const MIN_COPY_RANK: Threshold = Threshold::rule(
    "copies_rank",
    0.9,
    "smallest `copy_rank` of `copies`; chosen here: the three induction heads of box:causal have 0.96 to 1.00, its other heads 0.47 \
        to 0.64",
);

pub(super) const COPIES: Detector = Detector {
    thresholds: &[&MIN_COPY_RANK, &LABEL_Q],
    phrase: VerbPhrase::Fixed("raises the logit of the token that it attends to most"),
    style: LabelStyle::new(Some("copy"), AnsiColor::Magenta),
    assess: |evidence, policy| {
        let measured = evidence.metric("copy_rank", None);
        let mut assessment =
            assess("copies", "copy_rank", measured, ThresholdBound::AtLeast, policy.rule(&MIN_COPY_RANK));
        // Copying is the second half of the definition of an induction head, so its margin is at most that of `induction`.
        if let Some((Assessment { label, .. }, induction)) = assessment.as_mut().zip(evidence.given_label("induction"))
        {
            label.margin = label.margin.min(induction.margin);
            label.rests_on = Some(induction.label.clone());
        }
        assessment.into_iter().collect()
    },
    ..Detector::new_role(Explanation {
        name: "copies",
        measures: "The head's output raises the logit of the token that the head attends to most above the logits of other tokens.",
        formula: "copy_rank >= {copies_rank}, firm if q <= {label_q}",
        chance: "0.5",
        source: "Copying as the second half of the definition of induction heads: Olsson et al. 2022 (arXiv:2209.11895); direct effects: \
            Elhage et al. 2021 (transformer-circuits.pub).",
        caveats: "On random tokens that come twice, and by the direct path alone: later heads may undo what it writes. It says nothing of \
            where the head looks; `induction` does.",
    })
};
