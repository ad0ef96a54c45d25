//! Memory for packs: which packs fit, and how many can run side by side.

use anyhow::Result;

use crate::model::config::cost::Cost;
use crate::sequences::pack::Pack;
use crate::system::errors::{ErrorClass, ErrorExt};
use crate::system::machine::memory;

/// Number of attention weights in a pack above which a note tells the user that it takes a minute or more. With the default
/// studies, a weight takes 0.3 µs on one core (measured over a sentence of 1,500 words).
const SLOW_PACK_ATTENTION_WEIGHTS: u64 = 1 << 28;

/// Function from the lengths of the sequences in a pack to the pack's cost: memory and number of attention weights.
pub(super) type PackCost<'a> = dyn Fn(&[usize]) -> Cost + Sync + 'a;

/// The memory that a pass may use, divided among packs. Half of it is for small packs, which all workers can run at the
/// same time. Larger packs wait until the small ones are done, and then as many of them as fit run side by side. The
/// order has no effect on results, since sums are exact.
pub(super) struct PackMemory<'a> {
    cost: &'a PackCost<'a>,
    /// Number of observers that hold all attention weights of a pack until its end.
    attention_keepers: usize,
    /// Free memory that is not reserved, in bytes.
    free_bytes: u64,
    threads: usize,
}

impl<'a> PackMemory<'a> {
    /// Takes all free memory but `reserved` bytes for `threads` workers. `keepers` is the number of observers that hold all
    /// attention weights of a pack.
    pub(super) fn new(cost: &'a PackCost<'a>, (keepers, reserved): (usize, u64), threads: usize) -> Self {
        let free = memory::available().unwrap_or(u64::MAX).saturating_sub(reserved);
        Self { cost, attention_keepers: keepers, free_bytes: free, threads }
    }

    /// Cost of a pack of sequences with these lengths, including the attention that observers hold.
    fn cost_of(&self, lengths: &[usize]) -> Cost {
        let Cost { bytes, attention_weights: weights } = (self.cost)(lengths);
        let attention_bytes =
            weights.saturating_mul(self.attention_keepers as u64).saturating_mul(size_of::<f32>() as u64);
        Cost { bytes: bytes.saturating_add(attention_bytes), attention_weights: weights }
    }

    fn cost_of_pack(&self, pack: &Pack) -> Cost {
        let lengths: Vec<usize> = pack.sequences.iter().map(|sentence| sentence.ids.len()).collect();
        self.cost_of(&lengths)
    }

    /// Whether all workers can run a pack of this size at the same time.
    pub(super) fn fits_beside_others(&self, pack: &Pack) -> bool {
        !memory::is_shortage(self.cost_of_pack(pack).bytes, self.free_bytes / 2 / self.threads as u64)
    }

    /// Number of workers that can run packs as large as the largest of `packs` at the same time.
    pub(super) fn concurrent_workers(&self, packs: &[(usize, Pack)]) -> usize {
        let largest = packs.iter().map(|(_, pack)| self.cost_of_pack(pack).bytes).max().unwrap_or(0).max(1);
        usize::try_from(self.free_bytes / largest).map_or(self.threads, |threads| threads.clamp(1, self.threads))
    }

    /// Note for the user about a pack that takes minutes; `None` for other packs.
    pub(super) fn long_wait_note(&self, pack: &Pack) -> Option<String> {
        let weights = self.cost_of_pack(pack).attention_weights;
        (weights > SLOW_PACK_ATTENTION_WEIGHTS).then(|| {
            format!(
                "{} has {} million weights of attention, which takes minutes: --max-tokens leaves such sentences out",
                describe(pack),
                weights / 1_000_000
            )
        })
    }

    /// Fails if a pack does not fit into memory by itself.
    pub(super) fn ensure_fits(&self, pack: &Pack) -> Result<()> {
        let bytes = self.cost_of_pack(pack).bytes;
        if !memory::is_shortage(bytes, self.free_bytes) {
            return Ok(());
        }
        let error = memory::shortage_error(bytes, self.free_bytes, &describe(pack));
        let limit = memory::limit_option_for(bytes);
        // The longest single sentence that fits, found by halving.
        let fits = |tokens: &usize| !memory::is_shortage(self.cost_of(&[*tokens]).bytes, self.free_bytes);
        let longest = pack.sequences.iter().map(|sentence| sentence.ids.len()).max().unwrap_or(0);
        let shorter = std::iter::successors(Some(longest / 2), |tokens| Some(tokens / 2));
        let shorter = shorter.take_while(|&tokens| tokens > 0).find(fits).filter(|_| pack.sequences.len() == 1);
        let way_out = match shorter {
            Some(tokens) => {
                format!("skip such sentences by `--max-tokens {tokens}`, or let it have more by `--memory {limit}`")
            }
            None => format!("`--memory {limit}` lets it have as much"),
        };
        Err(error.hint(way_out)).class(ErrorClass::Input)
    }
}

/// Describes a pack by its sentences, for messages.
fn describe(pack: &Pack) -> String {
    let tokens = pack.token_count();
    match &pack.sequences[..] {
        [first, .., last] => format!("sentences {} to {} with {tokens} tokens together", first.index, last.index),
        _ => format!("sentence {} with {tokens} tokens", pack.sequences.first().map_or(0, |sentence| sentence.index)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences::sequence::Sequence;

    /// It takes a megabyte for each pair of tokens.
    fn costly(lengths: &[usize]) -> Cost {
        let pairs = lengths.iter().map(|&length| (length * length) as u64).sum::<u64>();
        Cost { bytes: pairs << 20, attention_weights: pairs << 26 }
    }

    #[test]
    fn a_pack_runs_beside_others_alone_or_not_at_all() {
        let pack = |lengths: &[usize]| Pack {
            sequences: lengths.iter().map(|&length| Sequence { ids: vec![0; length], ..Sequence::default() }).collect(),
        };
        let room = PackMemory { cost: &costly, attention_keepers: 0, free_bytes: 1600 << 20, threads: 4 };
        assert!(room.fits_beside_others(&pack(&[10, 10])) && !room.fits_beside_others(&pack(&[10, 11])));
        let together = |packs: &[&[usize]]| {
            room.concurrent_workers(&packs.iter().map(|lengths| (0, pack(lengths))).collect::<Vec<_>>())
        };
        assert_eq!((together(&[&[20], &[28]]), together(&[&[40]])), (2, 1));
        room.ensure_fits(&pack(&[40])).unwrap();
        // The limit depends on the memory of the test's process.
        let refused = |lengths: &[usize]| {
            let error = format!("{:#}", room.ensure_fits(&pack(lengths)).unwrap_err());
            let (before, limit) = error.split_once("--memory ").unwrap();
            format!("{before}--memory LIMIT{}", &limit[limit.find('`').unwrap()..])
        };
        insta::assert_snapshot!([refused(&[60]), refused(&[30, 30])].join("\n"), @"
        sentence 0 with 60 tokens needs about 3.8 GB of memory, and 1.7 GB are free: skip such sentences by `--max-tokens 30`, or let it have more by `--memory LIMIT`
        sentences 0 to 0 with 60 tokens together needs about 1.9 GB of memory, and 1.7 GB are free: `--memory LIMIT` lets it have as much
        ");
        insta::assert_snapshot!(room.long_wait_note(&pack(&[4])).unwrap(), @"sentence 0 with 4 tokens has 1073 million weights of attention, which takes minutes: --max-tokens leaves such sentences out");
        assert_eq!(room.long_wait_note(&pack(&[2])), None);
        // 64 million weights for each pair of tokens, of four bytes each.
        let with_keeper = PackMemory { attention_keepers: 1, ..room };
        assert!(!with_keeper.fits_beside_others(&pack(&[3])) && with_keeper.ensure_fits(&pack(&[3])).is_err());
    }
}
