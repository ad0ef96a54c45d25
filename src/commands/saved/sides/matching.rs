//! Matched heads of two models: the file that `headscope match` writes and `headscope compare --match` reads.

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use itertools::Itertools as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Side;
use crate::export::json;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::system::errors::ErrorExt;

/// Version of the file's schema, raised when a key changes its meaning or goes away; new keys alone do not raise it.
pub const SCHEMA_VERSION: u32 = 1;

/// Pairs of heads of two models that attend alike over the same sentences.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeadMatching {
    /// Version of this document's schema, raised when a key changes its meaning or goes away.
    pub schema_version: u32,
    /// Id and weights of the first model.
    pub a: MatchedModel,
    /// Id and weights of the second model.
    pub b: MatchedModel,
    /// Number of sentences over which heads were matched.
    pub sentences: u64,
    /// Number of heads whose partner is also found over even-numbered and over odd-numbered sentences separately. With
    /// `--labels`, sampling units are divided in this way, not sentences.
    pub halves_agree: usize,
    /// Heads of the first model with their partners, layer by layer.
    pub heads: Vec<MatchedHead>,
}

/// Id and weights of a model whose heads were matched.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MatchedModel {
    /// Hub id, or the name of the folder.
    pub id: String,
    /// SHA-256 of the weights.
    pub weights_sha256: String,
}

/// A head of the first model with its partner in the same layer of the second.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MatchedHead {
    /// Layer and number of the head in the first model.
    pub a: HeadPlace,
    /// Layer and number of its partner in the second model.
    pub b: HeadPlace,
    /// Distance of the pair, 0 to 1: root mean square, over text tokens, of the Hellinger distance between their attention rows.
    pub distance: f64,
    /// Distance to the second model's head of the same layer and number, as `distance`.
    pub distance_in_place: f64,
    /// Whether this partner is also found over even-numbered and over odd-numbered sentences separately.
    pub halves_agree: bool,
}

impl HeadMatching {
    pub fn read(path: &Path) -> Result<Self> {
        let text = json::read_text(path)?;
        let way_out = || format!("make it with `headscope match A B -c CORPUS -o {}`", path.display());
        let shown = path.display();
        let matching: Self = serde_json::from_str(&text)
            .map_err(|error| anyhow!("`{shown}` is not what `headscope match` writes: {error}").hint(way_out()))?;
        let version = matching.schema_version;
        ensure!(
            version == SCHEMA_VERSION,
            anyhow!("`{shown}` has version {version} of matched heads, not {SCHEMA_VERSION}").hint(way_out())
        );
        Ok(matching)
    }

    /// Index in `b` of the partner of each head of `a`, `[layers * heads]`.
    /// Fails if the sides have different models, or heads are not paired one to one.
    pub fn partners(&self, sides: [&Side; 2]) -> Result<Vec<usize>> {
        for (own, side) in [&self.a, &self.b].into_iter().zip(sides) {
            let model = &side.context.model;
            ensure!(
                own.weights_sha256 == model.weights_sha256,
                anyhow!("heads of `{}` were matched, and `{}` is of other weights, `{}`", own.id, side.file, model.id)
                    .hint("match the heads of the two models in the order of the reports")
            );
        }
        partner_indices(&self.heads, sides[0].context.model.grid())
            .ok_or_else(|| anyhow!("the heads are not matched one to one within the layers"))
    }
}

/// Index of each head's partner, `[layers * heads]`; `None` unless heads are paired one to one within each layer.
fn partner_indices(heads: &[MatchedHead], grid: HeadGrid) -> Option<Vec<usize>> {
    let is_within = |head: &MatchedHead| head.a.layer == head.b.layer && grid.first_outside([head.b]).is_none();
    let is_complete = grid.equals_all_heads(heads.iter().map(|head| head.a)) && heads.iter().all(is_within);
    let partners: Vec<usize> = heads.iter().map(|head| grid.index(head.b.layer, head.b.head)).collect();
    let is_one_to_one = partners.iter().copied().sorted_unstable().eq(0..grid.head_count());
    (is_complete && is_one_to_one).then_some(partners)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(a: (usize, usize), b: (usize, usize)) -> MatchedHead {
        let place = |(layer, head)| HeadPlace { layer, head };
        MatchedHead { a: place(a), b: place(b), distance: 0.0, distance_in_place: 0.5, halves_agree: true }
    }

    #[test]
    fn every_head_has_a_partner_of_its_own_in_its_layer() {
        let grid = HeadGrid { layers: 2, heads: 2 };
        let of = |partners: [(usize, usize); 4]| {
            let heads: Vec<_> =
                partners.into_iter().enumerate().map(|(at, b)| head(grid.layer_and_head(at), b)).collect();
            partner_indices(&heads, grid)
        };
        assert_eq!(of([(0, 1), (0, 0), (1, 0), (1, 1)]), Some(vec![1, 0, 2, 3]));
        assert_eq!(of([(0, 1), (0, 1), (1, 0), (1, 1)]), None);
        assert_eq!(of([(0, 0), (1, 0), (0, 1), (1, 1)]), None);
        assert_eq!(of([(0, 0), (0, 2), (1, 0), (1, 1)]), None);
        assert_eq!(partner_indices(&[head((0, 0), (0, 0))], grid), None);
    }
}
