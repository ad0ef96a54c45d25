//! Report section `choice`: how well position and token embedding predict each layer's inputs and its heads' attention.

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit::{RIDGES, min_text_tokens, text_tokens_per_fold};
use super::metrics::attends_uniformly;
use super::moments::InputMoments;
use super::rebuilt::{
    BlockDistances, POSITION_TOKEN_VARIANT, POSITION_VARIANT, RebuiltDistanceSums, SPECIAL_VARIANT, TOKEN_VARIANT,
    VARIANTS,
};
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::passes::control::ControlKind;
use crate::stats::block_test::{Jackknife, Scale};
use crate::stats::interval::Interval;
use crate::study::labels::policy::{Policy, Threshold};
use crate::study::section::{HeadCard, LateFact, Section, View, ViewContext, downcast_section, stored};
use crate::study::show::figure::{Chart, Figure, Stack, Stacks};
use crate::study::show::wording::{aligned_table, decimal, plus_minus_percent};
use crate::study::show::{InBrief, Shortage, Summary};
use crate::system::counts::format_count;

pub const MIN_REBUILT_SHARE: Threshold = Threshold::rule(
    "chooses_rebuilt",
    0.9,
    "smallest `rebuilt` of a label of how a head chooses: what is left is a tenth of the distance from even attention",
);

pub const MIN_LEAD_OVER_SPECIAL: Threshold = Threshold::rule(
    "chooses_over_special",
    0.1,
    "smallest `rebuilt_over_special` of `chooses:position` and `chooses:token`: as much as `chooses_rebuilt` leaves open",
);

/// Whether a head with these restored shares gets no label `chooses:…`. The report then describes it by numbers.
fn is_unlabelled(shares: [Option<f64>; VARIANTS.len()], policy: &Policy) -> bool {
    let reaches = |variant: usize| {
        shares[variant].zip(policy.rule(&MIN_REBUILT_SHARE)).is_some_and(|(share, least)| share >= least)
    };
    ![SPECIAL_VARIANT, POSITION_VARIANT, TOKEN_VARIANT].into_iter().any(reaches)
}

/// How well position and token embedding alone, without context, predict the inputs of layers and the attention of heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// Number of text tokens for the regression on position and embedding, in blocks of even and of odd number.
    pub fitted_on: [u64; 2],
    /// Fewest text tokens for a regression in each half of the blocks: 10 for each dimension of the embeddings.
    pub needed: u64,
    /// Results for each layer; empty if a half of the blocks has too few text tokens.
    pub layers: Vec<LayerChoice>,
    /// Results for each head, layer by layer; empty if `layers` is.
    pub heads: Vec<HeadChoice>,
}

/// How well position and token embedding alone, without context, predict one layer's inputs and its heads' attention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerChoice {
    /// Layer, counted from 0.
    pub layer: usize,
    /// Share of the variance of the layer's input that position and, linearly, the embedding leave unexplained. It is
    /// `sum |x - m - P - E B|² / sum |x - m|²` over text tokens. Here `x` is the input, `m` its mean, `P` the position's part
    /// and `E B` the embedding's. Fit and test use different halves. Above 1 if the parts fit worse than the mean; null if the
    /// input is constant.
    pub own_share: Option<f64>,
    /// 95 % interval of `own_share`.
    pub ci95: Option<Interval>,
    /// Ridge penalty selected in each half of the blocks, as a share of the mean square of an embedding dimension.
    pub ridge: [f64; 2],
    /// Mean of `rebuilt` in `choice.heads` over the layer's heads with non-uniform attention; all null if there are none.
    pub rebuilt: Rebuilt,
    /// Number of heads of the layer whose attention is not uniform.
    pub heads: usize,
    /// Mean of `rebuilt` over seeds of untrained models that attend as sharply (`--control random-sharp`); null if not run.
    #[serde(default)]
    pub sharp_control: Option<Rebuilt>,
}

/// How well attention on inputs without context predicts a head's actual attention (metric `rebuilt`). Like R², each share is 1
/// if both are equal, 0 if uniform attention predicts as well, and below 0 if uniform attention predicts better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rebuilt {
    /// Share of a head's distance from uniform attention that special tokens explain if all text tokens have the mean input.
    pub special: Option<f64>,
    /// Share of a head's distance from uniform attention that inputs predicted from position alone explain.
    pub position: Option<f64>,
    /// Share of a head's distance from uniform attention that inputs predicted from the token embedding alone explain.
    pub token: Option<f64>,
    /// Share of a head's distance from uniform attention that inputs predicted from position and token embedding explain.
    pub position_token: Option<f64>,
    /// As `position_token`, with predicted inputs for the keys only. Queries are computed from actual inputs, context included.
    pub keys: Option<f64>,
    /// As `position_token`, with predicted inputs for the queries only. Keys are computed from actual inputs, context included.
    pub queries: Option<f64>,
}

impl Rebuilt {
    /// Fills the fields from `share`, which takes an index in [`VARIANTS`] and returns the share of the distance restored.
    fn new(share: impl Fn(usize) -> Option<f64>) -> Self {
        let [special, position, token, position_token, keys, queries] = std::array::from_fn(share);
        Self { special, position, token, position_token, keys, queries }
    }

    /// Share of the head's distance from uniform attention that each of [`VARIANTS`] explains.
    fn variant_shares(&self) -> [Option<f64>; VARIANTS.len()] {
        [self.special, self.position, self.token, self.position_token, self.keys, self.queries]
    }
}

/// How well position and token embedding alone, without context, predict one head's attention.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadChoice {
    /// Attention head.
    #[serde(flatten)]
    pub place: HeadPlace,
    /// Shares of the head's distance from uniform attention explained without context (metric `rebuilt`). All are null if
    /// `is_even` is true.
    pub rebuilt: Rebuilt,
    /// 95 % interval of `rebuilt.position_token`.
    pub ci95: Option<Interval>,
    /// Whether attention is uniform over visible keys (mean squared Hellinger distance below 0.01). If so, the values of
    /// `rebuilt` are null.
    pub is_even: bool,
}

/// Returns the ratio of two sums, with its jackknife, from the pair of numbers in each block.
fn jackknifed_ratio(
    sums: &RebuiltDistanceSums,
    numerator: impl Fn(&BlockDistances) -> f64,
    denominator: impl Fn(&BlockDistances) -> f64,
) -> Jackknife {
    Jackknife::new(&sums.blocks.map_blocks(numerator), &sums.blocks.map_blocks(denominator)).with_scale(Scale::Real)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Words that follow the share restored from position and token, in the report's sentence about a head.
const BOTH_PARTS_PHRASE: &str = "rebuilt from tokens and positions without context";

impl Choice {
    /// Returns how much text is missing for the fit. Empty if the fit was possible.
    fn in_brief(&self) -> InBrief {
        let Choice { fitted_on: [first, second], needed, layers, .. } = self;
        let tokens = ["token", "tokens"].map(|tokens| format!("{tokens} of text in each half of the corpus"));
        let shortage = || Shortage::new("how heads choose", [*first.min(second), *needed], tokens);
        InBrief { shortage: layers.is_empty().then(shortage), ..InBrief::default() }
    }

    pub fn new(moments: &InputMoments, sums: &RebuiltDistanceSums, grid: HeadGrid) -> Self {
        let (fitted_on, needed) = (text_tokens_per_fold(moments), moments.widths.map_or(0, min_text_tokens));
        let total = sums.blocks.total();
        if total.rows == 0 || sums.ridges.is_empty() {
            return Self { fitted_on, needed, layers: Vec::new(), heads: Vec::new() };
        }
        let head = |place: usize| {
            let distances = &total.heads[place];
            let is_even = attends_uniformly(&total, place);
            let share =
                |variant: usize| (!is_even).then(|| 1.0 - distances.variants[variant].value() / distances.even.value());
            let even = |block: &BlockDistances| block.heads[place].even.value();
            let both_restored = jackknifed_ratio(
                sums,
                |block| even(block) - block.heads[place].variants[POSITION_TOKEN_VARIANT].value(),
                even,
            );
            HeadChoice {
                place: grid.head_place(place),
                rebuilt: Rebuilt::new(share),
                ci95: if is_even { None } else { both_restored.interval() },
                is_even,
            }
        };
        let heads: Vec<HeadChoice> = (0..grid.head_count()).map(head).collect();
        let layer = |(layer, ridge): (usize, &[u8; 2])| {
            let of_layer = heads[layer * grid.heads..][..grid.heads].iter();
            let uneven: Vec<&HeadChoice> = of_layer.filter(|head| !head.is_even).collect();
            let mean = |variant: usize| mean(uneven.iter().filter_map(|head| head.rebuilt.variant_shares()[variant]));
            let varies = total.layers[layer].all.value() > 0.0;
            let share = jackknifed_ratio(
                sums,
                |block| block.layers[layer].left.value(),
                |block| block.layers[layer].all.value(),
            );
            LayerChoice {
                layer,
                own_share: varies.then(|| share.value()),
                ci95: if varies { share.interval() } else { None },
                ridge: ridge.map(|place| RIDGES[usize::from(place)]),
                rebuilt: Rebuilt::new(mean),
                heads: uneven.len(),
                sharp_control: None,
            }
        };
        let layers = sums.ridges.iter().enumerate().map(layer).collect();
        Self { fitted_on, needed, layers, heads }
    }

    /// Sets `sharp_control` of each layer: the mean of `rebuilt` over the untrained models, one for each seed.
    fn set_sharp_control(&mut self, seeds: &[&dyn Section]) {
        let controls: Vec<&Self> = seeds.iter().map(|&seed| downcast_section(seed)).collect();
        for (number, layer) in self.layers.iter_mut().enumerate() {
            let mean = |variant: usize| {
                mean(
                    controls.iter().filter_map(|control| control.layers.get(number)?.rebuilt.variant_shares()[variant]),
                )
            };
            layer.sharp_control = Some(Rebuilt::new(mean));
        }
    }

    fn write_summary(&self, out: &mut Summary) -> fmt::Result {
        let [first, second] = self.fitted_on;
        let (least, most) = (first.min(second), first.max(second));
        if self.layers.is_empty() {
            return writeln!(
                out,
                "How heads choose: the halves of the corpus have {least} and {most} tokens of text, fewer than the {} that it takes.",
                self.needed
            );
        }
        writeln!(
            out,
            "How heads choose: share of the distance from even attention that comes back from inputs without context, mean of \
             each layer's heads, in per cent (0: even attention). Position and token were fitted on halves of {least} and {most} \
             tokens, and used on the other half; more text would find less context. Layer 0 reads tokens and positions alone, so \
             its share of both is 100 % by construction, and its heads have no label here.\n",
        )?;
        if self.layers.iter().any(|layer| layer.sharp_control.is_some()) {
            writeln!(out, "In brackets: untrained models that attend as sharply (random-sharp).\n")?;
        }
        out.add_table(layers_table(&self.layers));
        let even = self.heads.iter().filter(|head| head.is_even).count();
        if even > 0 {
            let all = format_count(self.heads.len(), "head");
            writeln!(out, "\n{even} of {all}: attention is even, so that there is nothing to rebuild.")?;
        }
        Ok(())
    }
}

/// Formats a share in whole per cent.
fn whole_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}", 100.0 * share))
}

fn layers_table(layers: &[LayerChoice]) -> comfy_table::Table {
    let header = ["", "special", "position", "token", "both", "both in keys", "both in queries", "input's own share"];
    let row = |LayerChoice { layer, own_share, ci95, rebuilt, sharp_control, .. }: &LayerChoice| {
        let cell = |variant: usize| {
            let control =
                sharp_control.map(|control| format!(" ({})", whole_percent(control.variant_shares()[variant])));
            whole_percent(rebuilt.variant_shares()[variant]) + &control.unwrap_or_default()
        };
        let input_share = whole_percent(*own_share) + &plus_minus_percent(*ci95);
        [format!("L{layer}")].into_iter().chain((0..VARIANTS.len()).map(cell)).chain([input_share]).collect::<Vec<_>>()
    };
    aligned_table(header, layers.iter().map(row), 1..)
}

stored!(Choice as choice);

impl Section for Choice {
    fn add_late_fact(&mut self, known: &LateFact<'_>) {
        if let LateFact::Control(ControlKind::RandomSharp, seeds) = known {
            self.set_sharp_control(seeds);
        }
    }

    fn view(&self, _: ViewContext<'_>) -> View<'_> {
        View {
            in_brief: self.in_brief(),
            summary: Summary::from_writer(|out| self.write_summary(out)),
            figures: figures(self),
            ..View::default()
        }
    }

    fn head_card(&self, place: HeadPlace, ViewContext { policy, .. }: ViewContext<'_>) -> HeadCard {
        let Some(head) = self.heads.iter().find(|head| head.place == place) else { return HeadCard::default() };
        if head.is_even {
            return HeadCard::from_iter(["its attention is even: there is nothing to rebuild".to_owned()]);
        }
        let [special, position, token, both, keys, queries] = head.rebuilt.variant_shares().map(whole_percent);
        let ci95 = plus_minus_percent(head.ci95);
        let by_construction = if place.layer == 0 { " (layer 0 reads nothing else)" } else { "" };
        let line = format!(
            "of its distance from even attention {both}{ci95} % comes back from position and token; {special} % from special tokens \
             alone, {position} % from position, {token} % from the token; {keys} % with context in queries alone, {queries} % with \
             it in keys alone{by_construction}"
        );
        let shares = head.rebuilt.variant_shares();
        let is_mentioned = place.layer > 0 && is_unlabelled(shares, policy);
        let clause = shares[POSITION_TOKEN_VARIANT].filter(|_| is_mentioned).map(|share| {
            let (part, phrase) =
                if share < 0.5 { (1.0 - share, "left to context") } else { (share, BOTH_PARTS_PHRASE) };
            format!("has {} of its distance from even attention {phrase}", decimal(part, 2))
        });
        HeadCard::from_iter([line]).with_clauses(clause)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Choice { layers, heads, .. } = self;
        let is_whole = grid.equals_all_heads(heads.iter().map(|head| head.place))
            && layers.iter().map(|one| one.layer).eq(0..grid.layers);
        let is_empty = layers.is_empty() && heads.is_empty();
        (!is_whole && !is_empty).then(|| "`choice` does not have each layer and each head of the model once".to_owned())
    }
}

fn figures(choice: &Choice) -> Vec<Figure> {
    if choice.heads.iter().all(|head| head.is_even) {
        return Vec::new();
    }
    let stack = |head: &HeadChoice| {
        let share = |value: Option<f64>| value.map_or(0.0, |value| value.clamp(0.0, 1.0));
        let rebuilt = &head.rebuilt;
        let ends = [rebuilt.special, rebuilt.position, rebuilt.position_token].map(share);
        let mut reached = 0.0_f64;
        let parts = ends.map(|end| {
            let part = (end - reached).max(0.0);
            reached += part;
            part
        });
        let context = if head.is_even { 0.0 } else { 1.0 - reached };
        Stack { place: head.place, parts: parts.into_iter().chain([context]).collect() }
    };
    vec![Figure {
        name: "choice",
        title: "How heads choose".to_owned(),
        reading: format!(
            "For each head the share of its distance from even attention that comes back from inputs without context, stacked: \
             from special tokens alone, what position adds, what the token adds to both, and what needs context. Heads without \
             a bar attend evenly. Fitted on {} and {} tokens, used on the other half.",
            choice.fitted_on[0], choice.fitted_on[1]
        ),
        chart: Chart::Stacks(Stacks {
            scale: "share of the distance from even attention".to_owned(),
            parts: ["special tokens", "position", "token", "context"].map(str::to_owned).to_vec(),
            stacks: choice.heads.iter().map(stack).collect(),
        }),
    }]
}
