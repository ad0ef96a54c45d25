//! The results of upstream studies, for the studies that build on them.

use std::sync::LazyLock;

use itertools::Itertools;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::aim::Aim;
use super::labels::evidence::Direction;

/// Results of the first stage that later studies build on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamResults {
    /// Labels that claim that a head follows the dependency arcs of a relation.
    pub claims: Vec<ArcClaim>,
    /// Orders of all heads by importance, for pruning.
    pub rankings: Vec<Ranking>,
    /// Indices of the attention heads with a negligible effect.
    pub negligible: Vec<usize>,
    /// Clusters of attention heads that attend alike, each with the heads' indices, ascending.
    pub clusters: Vec<Vec<usize>>,
    /// Heads with a label about where they attend, each with its aim: the tokens that the label names.
    pub aims: Vec<HeadAim>,
    /// Reason why nothing can be said about attention heads on the run's task; `None` if there is no reason, or no
    /// task.
    pub obstacle: Option<Obstacle>,
}

/// Reason why nothing can be said of attention heads on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// The model is not significantly better than a baseline without any skill.
    NotAboveBaseline,
    /// One answer is right for more than 60 % of the items.
    OneAnswer,
    /// There are fewer items, or fewer sampling units, than the policy asks for.
    TooFewUnits,
}

pub static NO_UPSTREAM_RESULTS: LazyLock<UpstreamResults> = LazyLock::new(UpstreamResults::default);

impl UpstreamResults {
    /// Appends the results of another study. If both have an obstacle, the first is kept.
    pub fn merged_with(mut self, other: Self) -> Self {
        self.claims.extend(other.claims);
        self.rankings.extend(other.rankings);
        self.negligible.extend(other.negligible);
        self.clusters.extend(other.clusters);
        self.aims.extend(other.aims);
        self.obstacle = self.obstacle.or(other.obstacle);
        self
    }
}

/// A pruning order of all attention heads, chosen on the even-numbered blocks alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranking {
    /// Criterion of the order: `effect`, `gradient`, `task`, or `random:` with the seed.
    pub by: String,
    /// Indices of all attention heads, the least important first.
    pub places: Vec<usize>,
}

impl Ranking {
    /// Heads by rising score, from the scores `[heads]`; ties keep the order of the heads.
    pub fn from_scores(by: &str, scores: &[f64]) -> Self {
        let places = (0..scores.len()).sorted_by(|&a, &b| scores[a].total_cmp(&scores[b])).collect();
        Self { by: by.to_owned(), places }
    }
}

/// A label's claim that the attention of a head follows the arcs of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArcClaim {
    /// Index of the attention head in lists of all heads.
    pub place: usize,
    pub label: String,
    /// Name of the relation, under which its arcs are [scored](crate::corpus::relation::scored_relations).
    pub relation: String,
    /// The query of the dependency arc: its dependent or its syntactic head.
    pub direction: Direction,
    /// The fixed offset from the dependent to its syntactic head that is right most often, in words.
    pub offset: i32,
}

/// Where one attention head attends according to one of its labels (the aim), and how closely it does so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeadAim {
    /// Index of the attention head in lists of all heads.
    pub place: usize,
    /// The first of the attention head's labels that has an aim.
    pub label: String,
    pub aim: Aim,
    /// Mean score of the head on `aim` over the corpus, from 0 to 1 (attention always as aimed).
    pub mean: f64,
}
