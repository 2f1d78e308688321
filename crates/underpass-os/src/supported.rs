//! The targets for which Underpass builds. On others, the compiler's error says what is missing.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Underpass runs on Linux only: it needs futexes, sealed files in memory (memfd_create), sockets and \
     process descriptors that say who the peer is, and barriers across processes (membarrier). Build it \
     for Linux, as with `--target x86_64-unknown-linux-gnu`, and put the parts of a portable program \
     that use it behind `#[cfg(target_os = \"linux\")]`"
);

#[cfg(all(target_os = "linux", not(all(target_arch = "x86_64", target_pointer_width = "64"))))]
compile_error!(
    "Underpass runs on x86-64 only: the copies of memory that a peer may be writing, and the order in \
     which two processes see each other's writes there, are written and tested for no other processor. \
     Build it with `--target x86_64-unknown-linux-gnu`, and put the parts of a portable program that use \
     it behind `#[cfg(target_arch = \"x86_64\")]`"
);
