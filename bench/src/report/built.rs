//! The code that this executable was built from.

use underpass_figures::SourceVersion;

/// The commit that this executable was built from, as the build script has recorded it. It is
/// unknown if the build was not for release.
///
/// # Examples
/// ```
/// assert!(underpass_bench::built_version().words().starts_with("of "));
/// ```
pub fn built_version() -> SourceVersion {
    SourceVersion::recorded(env!("UNDERPASS_BENCH_COMMIT"), env!("UNDERPASS_BENCH_TREE"))
}
