//! Available memory, so that larger needs are refused before allocation. On Linux it is the minimum of free memory and of the
//! bytes left under the limits of the container (cgroup) and of the process (`ulimit -v`). On other systems only `--memory`
//! bounds it.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Error, Result, anyhow};

/// Memory need up to which nothing is refused, in bytes. If less than that is free, the system can swap.
const NEVER_REFUSED_BYTES: u64 = 64 << 20;

/// Limit of the process's memory (`--memory`), in bytes; 0 without a limit.
static MEMORY_LIMIT_BYTES: AtomicU64 = AtomicU64::new(0);

/// Limits the memory of the process to `bytes`, whatever memory the system reports as free.
pub fn set_limit(bytes: u64) {
    MEMORY_LIMIT_BYTES.store(bytes, Ordering::Relaxed);
}

/// Number of bytes of memory that the process may still allocate; `None` if unknown.
pub fn available() -> Option<u64> {
    match MEMORY_LIMIT_BYTES.load(Ordering::Relaxed) {
        // Bytes that can be taken without swapping (`proc_meminfo(5)`).
        0 => {
            let free = proc_bytes("/proc/meminfo", "MemAvailable:");
            [free, available_in_control_groups(), free_address_space()].into_iter().flatten().min()
        }
        limit => Some(limit.saturating_sub(proc_bytes("/proc/self/status", "VmRSS:").unwrap_or(0))),
    }
}

/// Fails if fewer than `needed` bytes of memory are available, except for needs that [`is_shortage`] never refuses.
/// Never fails if the available memory is unknown. `what` names the need in the error.
pub fn ensure_available(needed: u64, what: impl FnOnce() -> String) -> Result<()> {
    let lacking = available().filter(|&free| is_shortage(needed, free));
    lacking.map_or(Ok(()), |free| Err(shortage_error(needed, free, &what())))
}

/// Whether `needed` bytes are refused if `free` bytes are free. Needs up to `NEVER_REFUSED_BYTES` are never refused.
pub fn is_shortage(needed: u64, free: u64) -> bool {
    needed > free && needed > NEVER_REFUSED_BYTES
}

/// Makes the error that `what` needs `needed` bytes although only `free` are free. It has no hint.
pub fn shortage_error(needed: u64, free: u64, what: &str) -> Error {
    anyhow!("{what} needs about {} of memory, and {} are free", format_bytes(needed), format_bytes(free))
}

/// Value for `--memory` that would allow the process `needed` more bytes.
pub fn limit_option_for(needed: u64) -> String {
    let used = proc_bytes("/proc/self/status", "VmRSS:").unwrap_or(0);
    format!("{}GB", needed.saturating_add(used).div_ceil(1_000_000_000))
}

pub fn format_bytes(bytes: u64) -> String {
    if bytes < 1_000_000_000 { format!("{} MB", bytes / 1_000_000) } else { format!("{:.1} GB", bytes as f64 / 1e9) }
}

/// Value of a key in a file of `/proc`, converted from KiB to bytes; `None` if the file lacks the key.
fn proc_bytes(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// Number of bytes of address space left under `ulimit -v` (`proc_pid_limits(5)`); `None` without that limit.
fn free_address_space() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(proc_bytes("/proc/self/status", "VmSize:")?))
}

/// Names in a control group (cgroup): `[file with its limit, file with its usage, key of reclaimable memory in
/// memory.stat]`.
type CgroupFileNames = [&'static str; 3];

/// Names in cgroup version 2 (cgroups(7), `memory.max`).
const CGROUP_V2_FILES: CgroupFileNames = ["memory.max", "memory.current", "inactive_file"];

/// Names of the limit file, the usage file and the key of reclaimable memory in cgroup version 1.
const CGROUP_V1_FILES: CgroupFileNames = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];

/// Number of bytes left in the tightest control group of the process, such as its container; `None` without a limit.
fn available_in_control_groups() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let left = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = Path::new(path.trim_start_matches('/'));
        match controllers {
            "" => available_in_group(Path::new("/sys/fs/cgroup"), path, CGROUP_V2_FILES),
            _ if controllers.split(',').any(|name| name == "memory") => {
                available_in_group(Path::new("/sys/fs/cgroup/memory"), path, CGROUP_V1_FILES)
            }
            _ => None,
        }
    });
    left.min()
}

/// Number of bytes left in the tightest control group among `path` and its ancestors up to `root`. Reclaimable memory
/// counts as left.
fn available_in_group(root: &Path, path: &Path, [most, now, reclaimable]: CgroupFileNames) -> Option<u64> {
    let of_group = |group: &Path| -> Option<u64> {
        let number = |file: &str| fs::read_to_string(root.join(group).join(file)).ok()?.trim().parse::<u64>().ok();
        let (most, now) = (number(most)?, number(now)?);
        let stat = fs::read_to_string(root.join(group).join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(reclaimable)?.strip_prefix(' ')?.parse().ok());
        Some(most.saturating_sub(now.saturating_sub(cached.unwrap_or(0))))
    };
    path.ancestors().filter_map(of_group).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_what_the_tightest_of_those_it_is_in_has() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("slurm/job");
        fs::create_dir_all(&job).unwrap();
        let write = |group: &Path, [most, now, stat]: [&str; 3]| {
            let files = [("memory.max", most), ("memory.current", now), ("memory.stat", stat)];
            files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        };
        write(&job, ["max\n", "50\n", "anon 1\n"]);
        write(&root.path().join("slurm"), ["1000\n", "400\n", "anon 5\ninactive_file 100\n"]);
        let left = |path: &str| available_in_group(root.path(), Path::new(path), CGROUP_V2_FILES);
        assert_eq!((left("slurm/job"), left(""), left("gone")), (Some(700), None, None));
        write(&job, ["300", "50", ""]);
        assert_eq!(left("slurm/job"), Some(250));
    }

    #[test]
    fn what_is_small_is_never_too_much() {
        assert!(
            !is_shortage(NEVER_REFUSED_BYTES, 0)
                && is_shortage(NEVER_REFUSED_BYTES + 1, NEVER_REFUSED_BYTES)
                && !is_shortage(1 << 40, 1 << 40)
        );
        assert_eq!((format_bytes(12_345_678), format_bytes(9_120_000_000)), ("12 MB".to_owned(), "9.1 GB".to_owned()));
        assert_eq!(
            shortage_error(2_000_000_000, 0, "this").to_string(),
            "this needs about 2.0 GB of memory, and 0 MB are free"
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_says_what_is_free() {
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
