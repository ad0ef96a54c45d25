//! The section `likeness` of the report.

use serde::Deserialize;

use super::report::{Likeness, comparisons};
use super::summary;
use crate::model::grid::{HeadGrid, HeadPlace};
use crate::studies::label::UNLABELLED;
use crate::studies::policy::Policy;
use crate::studies::section::Section;
use crate::studies::summary::Summary;

#[derive(Deserialize)]
pub struct LikenessSection {
    pub likeness: Likeness,
}

impl Section for LikenessSection {
    fn entries(&self) -> Vec<(&'static str, &dyn erased_serde::Serialize)> {
        vec![("likeness", &self.likeness)]
    }

    fn name_heads(&mut self, labels: &[String]) {
        let grid = self.grid(labels.len());
        let Likeness { distance, cka, clusters, same_label, .. } = &mut self.likeness;
        let grouped = |label: &String| labels.iter().position(|other| other == label).filter(|_| label != UNLABELLED);
        let groups: Vec<Option<usize>> = labels.iter().map(grouped).collect();
        *same_label = comparisons(&distance.concat(), &cka.concat(), &groups);
        let Some(heads) = grid else { return };
        for cluster in clusters.iter_mut() {
            let label = |head: &HeadPlace| labels.get(heads.index(head.layer, head.head)).cloned().unwrap_or_default();
            cluster.labels = cluster.heads.iter().map(label).collect();
        }
    }

    fn summary(&self, _: &Policy) -> Summary {
        summary::of(&self.likeness)
    }

    fn defect(&self, grid: HeadGrid) -> Option<String> {
        let Likeness { distance, cka, clusters, closest, map, disagreement, weights, .. } = &self.likeness;
        let whole = |lengths: &mut dyn Iterator<Item = usize>| lengths.eq(0..grid.count());
        let empty = distance.is_empty() && cka.is_empty();
        let rows = whole(&mut distance.iter().map(Vec::len)) && whole(&mut cka.iter().map(Vec::len));
        if !empty && !rows {
            return Some("`likeness` does not have each pair of heads once".to_owned());
        }
        let named =
            clusters.iter().flat_map(|cluster| &cluster.heads).chain(closest.iter().flat_map(|pair| &pair.heads));
        if let Some(head) = named.into_iter().find(|head| head.layer >= grid.layers || head.head >= grid.heads) {
            return Some(format!("`likeness` has {head}, which the model has not"));
        }
        let layers = disagreement.iter().map(|layer| layer.layer);
        let fits = map.as_ref().is_none_or(|map| map.points.len() == grid.count())
            && (disagreement.is_empty() || layers.eq(0..grid.layers))
            && weights.as_ref().is_none_or(|weights| weights.fits(grid));
        (!fits).then(|| "`likeness` does not have each layer and head of the model once".to_owned())
    }
}

impl LikenessSection {
    /// The grid of so many heads, as the disagreement of layers has it; `None` where nothing was seen.
    fn grid(&self, heads: usize) -> Option<HeadGrid> {
        let layers = self.likeness.disagreement.len();
        (layers > 0).then(|| HeadGrid { layers, heads: heads / layers })
    }
}
