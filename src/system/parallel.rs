//! Work that falls into equal parts, on several threads.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// One thread for each core.
#[must_use]
pub fn all_cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// What `work` makes of each item, in the items' order.
pub fn in_parallel<T: Send, R: Send>(
    threads: NonZeroUsize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, item)) = take() {
            done.push((place, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get()).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_items_order() {
        for threads in [1, 2, 7].map(|threads| NonZeroUsize::new(threads).unwrap()) {
            let squares = in_parallel(threads, 0..100_u64, |item| item * item);
            assert_eq!(squares, (0..100).map(|item| item * item).collect::<Vec<_>>());
            assert!(in_parallel(threads, 0..0, |item: u8| item).is_empty());
        }
    }
}
