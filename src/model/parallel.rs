//! Work that falls into equal parts, on all cores.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `work` makes of each item, in the items' order.
pub(super) fn in_parallel<T: Send, R: Send>(
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
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
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
    #[test]
    fn results_are_in_the_items_order() {
        let squares = super::in_parallel(0..100_u64, |item| item * item);
        assert_eq!(squares, (0..100).map(|item| item * item).collect::<Vec<_>>());
        assert!(super::in_parallel(0..0, |item: u8| item).is_empty());
    }
}
