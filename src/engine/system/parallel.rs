//! Independent pieces of work on several threads.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use itertools::Itertools;

/// Number of threads that can run at the same time on this machine.
pub fn core_count() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Locks a mutex, even if a thread panicked while it held the lock.
pub fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps `work` over the items on several threads. The results are in the order of the items.
pub fn parallel_map<T: Send, R: Send>(
    threads: NonZeroUsize,
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(items.into_iter().enumerate());
    let next_item = || lock_mutex(&queue).next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, item)) = next_item() {
            done.push((place, work(item)));
        }
        done
    };
    let done = on_threads(threads, worker).into_iter().flatten().sorted_by_key(|(place, _)| *place);
    done.map(|(_, result)| result).collect()
}

/// Runs `work` once on each of several threads, the current one included, and returns all results. The system may allow
/// fewer threads (`ulimit -u`), so each call of `work` must take pieces from a common queue. A panic on any thread is
/// propagated.
pub fn on_threads<R: Send>(threads: NonZeroUsize, work: impl Fn() -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, &work).ok();
        let others: Vec<_> = (1..threads.get()).map_while(spawn).collect();
        let mut results = vec![work()];
        let join = |worker: thread::ScopedJoinHandle<'_, R>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        results.extend(others.into_iter().map(join));
        results
    })
}

/// Runs two closures and returns both results, in parallel if a thread can be started. A panic in either is propagated.
pub fn run_both<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    // Outside the closure, so that it is not lost if no thread can be started.
    let waiting = Mutex::new(Some(first));
    let take = || lock_mutex(&waiting).take();
    let run = || take().map(|first| first());
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, run).ok();
        let second = second();
        let elsewhere = worker.map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let first = elsewhere.flatten().or_else(run).expect("the work is done once");
        (first, second)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pieces_of_work_are_done_at_once() {
        // Each waits for the other to have begun.
        let begun = std::sync::Barrier::new(2);
        let work = |number: u8| {
            begun.wait();
            number
        };
        assert_eq!(run_both(|| work(1), || work(2)), (1, 2));
    }

    #[test]
    fn results_are_in_the_items_order() {
        for threads in [1, 2, 7].map(|threads| NonZeroUsize::new(threads).unwrap()) {
            let squares = parallel_map(threads, 0..100_u64, |item| item * item);
            assert_eq!(squares, (0..100).map(|item| item * item).collect::<Vec<_>>());
            assert!(parallel_map(threads, 0..0, |item: u8| item).is_empty());
        }
    }
}
