use super::*;
use crate::corpus::{CorpusIdentity, FileIdentity, Format, LinkSources, RepeatCounts, Unit};
use crate::model::grid::HeadGrid;
use crate::model::grid::visibility::LayerClasses;
use crate::passes::control::{Control, ControlKind};
use crate::passes::observation::identity::{ModelInfo, Protocol, Tool};
use crate::passes::observer::{Event, Sums, expect_sums, new_observer, restore_observer};
use crate::passes::pass::Pass;
use crate::sequences::fold::words::FromToken;
use crate::sequences::reading::{Spacing, WindowTally};
use crate::sequences::sequence::Sequence;
use crate::sequences::tally::{FileTally, LeftOutWords, Legibility, SkipReason};
use crate::stats::blocks::{BLOCKS, Merge};

const GRID: HeadGrid = HeadGrid { layers: 1, heads: 2 };

/// The simplest sums there are.
#[derive(Clone, Serialize, Deserialize)]
struct Count(u32);

impl Merge for Count {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}

impl Sums for Count {
    type SequenceState = ();

    fn begin(&mut self, _: &Sequence) -> Option<()> {
        Some(())
    }

    fn observe(&mut self, (): &mut (), event: &mut Event<'_>) {
        if let Event::Head(_) = event {
            self.0 += 1;
        }
    }

    fn fits(&self, _: HeadGrid, _: FromToken, _: &LayerClasses) -> bool {
        true
    }
}

/// Any number of counts in any number of passes.
fn restore(_: &Identity, _: &Stage, passes: Vec<PassBytes>) -> Result<Vec<PassSums>> {
    let pass = |PassBytes { left_out, sums }: PassBytes| -> Result<PassSums> {
        let sums = sums.iter().map(|bytes| restore_observer::<Count>(bytes)).collect::<Result<_>>()?;
        Ok(PassSums { pass: Pass::PLAIN, left_out_sentences: left_out, sums })
    };
    passes.into_iter().map(pass).collect()
}

fn observation() -> Observation {
    let text = |text: &str| text.to_owned();
    let model = ModelInfo {
        id: text("tiny"),
        revision: None,
        family: text("bert"),
        layers: GRID.layers,
        heads: GRID.heads,
        absent: Vec::new(),
        constant_heads: Vec::new(),
        stored_layers: None,
        key_value_heads: None,
        visibility: LayerClasses::default(),
        head_dim: 1,
        hidden_size: 2,
        vocab_size: 3,
        masked_lm_head: false,
        residues: false,
        adapter: None,
        left: Vec::new(),
        objective: None,
        tokenizer: None,
        config_sha256: text("c"),
        weights_sha256: text("w"),
        tokenizer_sha256: [(text("tokenizer.json"), text("t"))].into(),
    };
    let protocol = Protocol {
        max_tokens: 8,
        truncate: false,
        limit: None,
        words: Spacing::Written,
        unit: None,
        from_token: FromToken::Mean,
        tokens_as_words: false,
        residues: None,
        reading: None,
        blocks: BLOCKS,
        controls: vec![Control { kind: ControlKind::ShuffledWords, seed: 0 }],
        removed: Vec::new(),
        ablation: None,
        task: None,
        counts: None,
        probes: Vec::new(),
        links_from: None,
        links: LinkSources::default(),
        classes: None,
        left_out: Vec::new(),
        studies: vec![text("attention")],
    };
    let corpus = CorpusIdentity {
        name: text("corpus"),
        files: vec![FileIdentity { name: text("corpus"), format: Format::Conllu, sha256: text("s"), generated: None }],
        repeats: RepeatCounts::default(),
        unit: Unit::default(),
        documents: None,
    };
    Observation {
        identity: Identity { tool: Tool::default(), model, corpus, protocol },
        tally: Tally {
            sentences: 1,
            tokens: 4,
            text_tokens: 2,
            unknown: 0,
            words: 2,
            longest: 4,
            skipped: [(SkipReason::NoTokens, 1)].into(),
            left_out: LeftOutWords::default(),
            shared_tokens: 0,
            legibility: Legibility::default(),
            truncated: 0,
            unannotated: 0,
            untagged: 0,
            passed_over: 0,
            windows: WindowTally::default(),
            files: vec![FileTally { sentences: 1, tokens: 4, words: 2, skipped: 1 }],
        },
        stage: Stage::Whole,
        passes: vec![
            PassSums {
                pass: Pass::PLAIN,
                left_out_sentences: 1,
                sums: vec![new_observer(Count(300)), new_observer(Count(2))],
            },
            PassSums { pass: Pass::PLAIN, left_out_sentences: 0, sums: Vec::new() },
        ],
        run_info: None,
    }
}

fn partial() -> Vec<u8> {
    serialize(Shard::WHOLE, &observation()).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    format!("{:#}", parse(bytes, &restore).err().expect("a refusal"))
}

#[test]
fn what_is_written_is_read() {
    let (shard, read) = parse(&partial(), &restore).unwrap();
    assert_eq!((shard, &read.identity, &read.tally), (Shard::WHOLE, &observation().identity, &observation().tally));
    let counts: Vec<u32> = read.passes[0].sums.iter().map(|count| expect_sums::<Count>(&**count).0).collect();
    assert_eq!((read.passes[0].left_out_sentences, counts, read.passes.len()), (1, vec![300, 2], 2));
    assert_eq!(serialize(shard, &read).unwrap(), partial());
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let whole = partial();
    for place in 0..whole.len() {
        assert!(parse(&whole[..place], &restore).is_err(), "cut at {place}");
        let mut flipped = whole.clone();
        flipped[place] ^= 1;
        assert!(parse(&flipped, &restore).is_err(), "flipped at {place}");
    }
    let mut longer = whole;
    longer.push(0);
    insta::assert_snapshot!(refusal(&longer), @"it is damaged or cut short: run its shard again");
}

#[test]
fn counts_that_cannot_be_added_up_are_refused() {
    let half = Shard::try_from((1, 2)).unwrap();
    let changed = |change: &dyn Fn(&mut Observation)| {
        let mut observation = observation();
        change(&mut observation);
        refusal(&serialize(half, &observation).unwrap())
    };
    let run = |shards| RunInfo {
        shards,
        started_at: String::new(),
        duration_seconds: 1.0,
        analysis_seconds: 1.0,
        threads: 1,
        os: String::new(),
        arch: String::new(),
    };
    let refusals = [
        changed(&|it| it.tally.tokens = u64::MAX),
        changed(&|it| it.passes[1].left_out_sentences = 1 << 47),
        changed(&|it| it.run_info = Some(run(2))),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @"
    it holds what no run counts: a count of more than 70368744177664
    it holds what no run counts: a count of more than 70368744177664
    its header has the run of several shards
    ");
    // A shard is one run, the whole may be merged of several.
    for (shard, shards) in [(half, 1), (Shard::WHOLE, 2)] {
        let ran = Observation { run_info: Some(run(shards)), ..observation() };
        assert!(parse(&serialize(shard, &ran).unwrap(), &restore).is_ok());
    }
}

#[test]
fn another_format_version_is_named() {
    insta::assert_snapshot!(refusal(b"headscope partial 12\nwhatever"), @"it has format version 12, this program reads 11: use the version of headscope that wrote it, or remove it and run its shard again");
}

#[test]
fn sums_that_unpack_without_end_are_cut_off() {
    let header =
        String::from_utf8(split_first_line(split_first_line(&partial()).unwrap().1).unwrap().0.to_vec()).unwrap();
    let zeros = vec![0; usize::try_from(UNCHECKED_UNPACKED_BYTES).unwrap() + 1];
    let bomb = assemble(&header, &zeros).unwrap();
    assert!(bomb.len() < 10_000);
    insta::assert_snapshot!(refusal(&bomb), @"its sums unpack to more than 67108864 bytes");
}
