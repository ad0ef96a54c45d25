//! The figures of similarity: heads as points of the plane, and as they are joined to clusters.

use crate::model::grid::HeadGrid;
use crate::studies::heads::similarity::clusters::{CUT, joins};
use crate::studies::heads::similarity::report::Similarity;
use crate::study::show::figure::{Chart, Figure, Points, Tree};
use crate::study::show::wording::sequences;
use crate::system::counted::{counted, plural};

pub(crate) fn figures(similarity: &Similarity, grid: HeadGrid) -> Vec<Figure> {
    let Similarity { sentences, read, tokens, distance, median_distance, map, clusters, .. } = similarity;
    let Some(median) = *median_distance else { return Vec::new() };
    let kept = similarity.kept(grid);
    let sample = format!("{} of {}", counted(*tokens, "token"), sequences(*sentences, *read));
    let over = format!("The Hellinger distance of their attention over {sample}.");
    let map = map.as_ref().map(|map| {
        let shown = map.shown.map(|share| format!("{:.0} %", 100.0 * share));
        Figure {
            name: "similarity-map",
            title: "Heads that look alike stand side by side".to_owned(),
            reading: format!(
                "{over} Two axes show {} and {} of the distances: heads that lie together here need not be alike. Lines join the \
                 heads of the {} that {}.",
                shown[0],
                shown[1],
                counted(kept.len(), "cluster"),
                plural(&kept.len(), "holds", "hold")
            ),
            chart: Chart::Points(Points {
                distance: "as far apart as the distance of their attention, as far as a plane shows it".to_owned(),
                points: map.points.clone(),
                groups: kept.clone(),
            }),
        }
    });
    let tree = Figure {
        name: "similarity-tree",
        title: "Heads joined by how alike they look".to_owned(),
        reading: format!(
            "{over} Average linkage; clusters are cut at half of the median distance, {:.3} (dashed): {} of {} {}: \
             together in 80 % of resamples, and nearer to each other than to even attention.",
            CUT * median,
            kept.len(),
            clusters.len(),
            plural(&kept.len(), "holds", "hold")
        ),
        chart: Chart::Tree(Tree {
            height: "distance at which they are joined".to_owned(),
            cut: Some(CUT * median),
            joins: joins(&distance.concat(), grid.count()),
        }),
    };
    map.into_iter().chain([tree]).collect()
}
