//! How many sentences of each file are read where only so many are of all: as many of each, and more of those that have more
//! where others have fewer.

use super::Corpus;
use crate::corpus::files::CorpusFile;

/// The share of each file in its order; `None` of a single file, and where one can be read only once, so that what it has is not
/// known beforehand.
///
/// Files are read ahead as far as their shares go. A file that cannot be read has what it has before the error, which the reader
/// proper reports.
pub(super) fn shares(files: &[CorpusFile], limit: u64) -> Option<Vec<u64>> {
    if files.len() < 2 {
        return None;
    }
    let again: Option<Vec<CorpusFile>> = files.iter().map(CorpusFile::again).collect();
    again?;
    Some(even(files.len(), limit, |file, most| {
        let again = files[file].again().expect("a file that can be read again");
        sentences(again, most)
    }))
}

/// So many sentences a file has, or `most` if it has more.
fn sentences(file: CorpusFile, most: u64) -> u64 {
    let mut ahead = Corpus::of(String::new(), vec![file], 0);
    let mut count = 0;
    while count < most && matches!(ahead.parsed(), Ok(Some(_))) {
        count += 1;
    }
    count
}

/// The shares of files of which `count` says how many sentences each has, up to a number: all files get the same, but for those that
/// have fewer, and the first of the others one more where that does not come out even.
fn even(files: usize, limit: u64, count: impl Fn(usize, u64) -> u64) -> Vec<u64> {
    let mut shares = vec![0; files];
    let (mut left, mut others): (u64, Vec<usize>) = (limit, (0..files).collect());
    loop {
        let Some(share) = left.checked_div(others.len() as u64) else { return shares };
        let counted: Vec<(usize, u64)> = others.iter().map(|&file| (file, count(file, share + 1))).collect();
        let (short, long): (Vec<_>, Vec<_>) = counted.into_iter().partition(|(_, has)| *has <= share);
        others = long.into_iter().map(|(file, _)| file).collect();
        if short.is_empty() {
            let more = left % others.len() as u64;
            others.iter().zip(0..).for_each(|(&file, place)| shares[file] = share + u64::from(place < more));
            return shares;
        }
        for (file, has) in short {
            (shares[file], left) = (has, left - has);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[u64], limit: u64) -> Vec<u64> {
        even(sizes.len(), limit, |file, most| sizes[file].min(most))
    }

    #[test]
    fn every_file_gives_as_many_as_it_can() {
        assert_eq!(of(&[9, 9, 9], 6), [2, 2, 2]);
        assert_eq!(of(&[9, 9, 9], 8), [3, 3, 2]);
        // What the second lacks comes from the others, and what those lack from the last.
        assert_eq!(of(&[9, 1, 9], 9), [4, 1, 4]);
        assert_eq!(of(&[3, 0, 1, 9], 10), [3, 0, 1, 6]);
        // Fewer sentences than files, or than are asked for.
        assert_eq!(of(&[9, 9, 9], 2), [1, 1, 0]);
        assert_eq!(of(&[2, 1], 10), [2, 1]);
        assert_eq!(of(&[2, 1], 0), [0, 0]);
    }
}
