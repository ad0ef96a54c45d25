//! Activations kept for a later pass. The later pass sees equal values, and reports have equal bytes, whatever memory
//! is available.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::random::{RandomEncoder, sentences};
use crate::support::answers::Answers;
use crate::support::{path, run};
use headscope::model::config::cost::Cost;
use headscope::model::forward::batch::Batch;
use headscope::model::forward::gates::Gates;
use headscope::model::forward::packed::PackedEncoder;
use headscope::model::forward::rows::Rows;
use headscope::model::forward::visitor::{Needs, Visitor};
use headscope::model::forward::{Encoder, PassStart, Scratch};
use headscope::model::grid::HeadGrid;
use headscope::model::grid::visibility::LayerClasses;
use headscope::passes::kept::{KeepRequest, KeptActivations};
use headscope::passes::observer::set::ObserverSet;
use headscope::passes::observer::{Demands, Event, Sums, expect_sums, new_observer};
use headscope::passes::pass::Pass;
use headscope::passes::run::variants::Variants;
use headscope::passes::run::workers::sum_activations;
use headscope::sequences::fold::words::FromToken;
use headscope::sequences::sequence::Sequence;
use headscope::sequences::shard::Shard;
use headscope::stats::blocks::Merge;
use headscope::system::progress::run::RunProgress;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

/// An event as an observer saw it: sequence, kind, layer or head, and the bits of its values.
type Shown = (u64, &'static str, usize, Vec<u32>);

/// A log of the activations that can be kept, in order within a sequence.
#[derive(Clone, Default, Serialize, Deserialize)]
struct ActivationLog {
    needs_logits: bool,
    #[serde(skip)]
    shown: Vec<Shown>,
}

impl Merge for ActivationLog {
    fn merge(&mut self, other: &Self) {
        self.shown.extend(other.shown.iter().cloned());
    }
}

fn bits<'a>(rows: impl Iterator<Item = &'a [f32]>) -> Vec<u32> {
    rows.flatten().map(|value| value.to_bits()).collect()
}

/// The activations that these tests keep.
const KEPT: Needs = Needs { contexts: true, layer_inputs: true, attention_inputs: true, ..Needs::ATTENTION };

impl Sums for ActivationLog {
    type SequenceState = u64;

    fn demands(&self) -> Demands {
        Demands::from_needs(if self.needs_logits { Needs { logits: true, ..Needs::default() } } else { KEPT })
    }

    fn begin(&mut self, sequence: &Sequence) -> Option<u64> {
        Some(sequence.index)
    }

    fn observe(&mut self, &mut index: &mut u64, event: &mut Event<'_>) {
        let all = |rows: &Rows<'_>| bits(rows.iter());
        match event {
            Event::Head(input) => {
                let (view, place) = (input.view, input.view.layer);
                self.shown.push((index, "attention", place, bits(view.attention.rows())));
                let entropies = (0..view.attention.tokens()).map(|row| view.attention.entropy(row).to_bits());
                self.shown.push((
                    index,
                    "entropies",
                    place,
                    entropies.map(|bits| u32::try_from(bits >> 32).expect("32 bits")).collect(),
                ));
                self.shown.push((index, "context", view.head, all(&view.context.expect("it is needed"))));
            }
            Event::HiddenStates { layer, states } => self.shown.push((index, "states", *layer, all(states))),
            Event::AttentionInputs { layer, inputs, .. } => {
                self.shown.push((index, "inputs", *layer, all(inputs)));
            }
            _ => {}
        }
    }

    fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        true
    }
}

/// An encoder that counts its passes.
struct CountedPasses<'a>(&'a dyn Encoder, AtomicUsize);

impl Encoder for CountedPasses<'_> {
    fn cost(&self, lengths: &[usize]) -> Cost {
        self.0.cost(lengths)
    }

    fn forward_from(
        &self,
        start: PassStart<'_>,
        batch: &Batch<'_>,
        gates: &Gates,
        scratch: &mut Scratch,
        visitor: &mut dyn Visitor,
    ) -> anyhow::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.forward_from(start, batch, gates, scratch, visitor)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// 24 sentences of 60 tokens make three packs of eight. No observer of the first pass needs the kept activations.
    #[test]
    fn later_pass_sees_the_kept_activations(random in RandomEncoder::any()) {
        let parameters = random.parameters();
        let config = parameters.config.clone();
        let packed = PackedEncoder::new(parameters);
        let sequences: Vec<Sequence> = (0..).zip(sentences(&[60; 24])).map(|(index, sentence)| Sequence { index, ..sentence }).collect();
        let pass = |kept: &KeptActivations, follows: bool| {
            let counted = CountedPasses(&packed, AtomicUsize::new(0));
            let log = ActivationLog { needs_logits: !follows, ..ActivationLog::default() };
            let (observers, progress) = (ObserverSet::new(vec![new_observer(log)]), RunProgress::default());
            let kept = kept.pass_store(&Pass::PLAIN, Shard::WHOLE, follows);
            let (variants, given) = (Variants::baseline_only(Gates::default()), sequences.iter().cloned().map(Ok));
            let seen = sum_activations(observers, ("random", &counted), &variants, given, NonZeroUsize::new(2).unwrap(), &progress, kept);
            let seen = seen.unwrap().into_observers();
            let mut shown = expect_sums::<ActivationLog>(&*seen[0]).shown.clone();
            // Workers take packs in any order.
            shown.sort_by_key(|(index, ..)| *index);
            (shown, counted.1.into_inner())
        };
        let with_bound = |bound: u64| -> Result<(Vec<Shown>, usize), TestCaseError> {
            let kept = KeptActivations::new(vec![(Pass::PLAIN, vec![KeepRequest { needs: KEPT, applies_to: |_| true }])], &config, bound);
            prop_assert_eq!(pass(&kept, false).1, 3);
            Ok(pass(&kept, true))
        };
        let (layers, heads) = (config.num_hidden_layers, config.num_attention_heads);
        let values_per_token = layers * (heads * (61 + config.head_dim()) + 2 * config.hidden_size);
        // Room for one pack with its events, not for two.
        let one = (8 * 60 * values_per_token * 4) as u64 * 3 / 2;
        let (recomputed, passes) = with_bound(0)?;
        prop_assert!(passes == 3 && recomputed.len() == 24 * layers * (3 * heads + 2));
        for (bound, expected) in [(one, 2), (u64::MAX, 0)] {
            let (shown, passes) = with_bound(bound)?;
            prop_assert_eq!(passes, expected);
            prop_assert!(shown == recomputed, "other activations");
        }
    }
}

/// An analysis with studies that keep activations, and with a control that keeps them as well.
const KEEPING: [&str; 16] = [
    "analyze",
    "box:small",
    "-c",
    "box:gold",
    "--with",
    "choice,probes,examples",
    "--without",
    "repeats,coreference",
    "--control",
    "random-init",
    "--control-seeds",
    "1",
    "--limit",
    "700",
    "--no-run-info",
    "-q",
];

#[test]
fn kept_activations_change_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let report = |name: &str, more: &[&str]| {
        run(&[&KEEPING[..], &["-o", &at(name)], more].concat()).unwrap();
        fs::read(at(name)).unwrap()
    };
    let nothing = report("nothing.json", &["--keep", "0", "--threads", "1"]);
    let whole = |name: &str| String::from_utf8(nothing.clone()).unwrap().contains(name);
    assert!(["\"probes\"", "\"choice\"", "\"examples\""].into_iter().all(whole));
    for (name, more) in [
        ("all.json", &["--threads", "1"][..]),
        ("all-2.json", &["--threads", "2"]),
        ("some.json", &["--keep", "5MB", "--threads", "1"]),
        ("some-2.json", &["--keep", "5MB", "--threads", "2"]),
        ("parts.json", &["--resume", &at("parts")]),
    ] {
        assert!(report(name, more) == nothing, "{name} has other bytes");
    }
    // Shards keep nothing, because a process runs one shard in one stage.
    let run_stage = |stage: &str, more: &[&str]| {
        ["1/2", "2/2"].map(|shard| {
            let part = at(&format!("{stage}-{}.headscope", &shard[..1]));
            run(&[&KEEPING[..], &["-o", &part, "--shard", shard], more].concat()).unwrap();
            part
        })
    };
    let merge = |parts: &[&String], output: &str| {
        let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
        run(&[&["merge", "--no-run-info", "-q", "-o", output], &parts[..]].concat()).unwrap();
    };
    let first = at("first.headscope");
    merge(&run_stage("first", &[]).each_ref(), &first);
    let [one, two] = run_stage("after", &["--after", &first]);
    merge(&[&first, &one, &two], &at("merged.json"));
    assert!(fs::read(at("merged.json")).unwrap() == nothing);
}

#[test]
fn invalid_keep_options_are_refused() {
    let refused = |more: &[&str]| run(&[&["analyze", "--limit", "5"], more].concat()).unwrap_err();
    let folder = tempfile::tempdir().unwrap();
    let mut answers = Answers::within(folder.path());
    for wrong in ["lots", "-1", "", "1e9"] {
        let option = format!("--keep={wrong}");
        answers.refused(&option, &refused(&[&option]));
    }
    let part = folder.path().join("part.headscope");
    answers.refused("a shard", &refused(&["--keep", "1GB", "--shard", "1/2", "-o", path(&part)]));
    answers.held("kept-refusals");
}
