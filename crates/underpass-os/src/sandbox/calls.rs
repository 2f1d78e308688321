//! System calls by name, for filters that list which calls a process may make.

macro_rules! calls {
    ($($(#[$when:meta])? $name:ident => $number:ident)*) => {
        /// The number of the system call `name` on this processor. `None` if the processor has no
        /// such call, or if this table does not know it.
        ///
        /// # Examples
        /// ```
        /// use underpass_os::calls;
        /// assert_eq!(calls::name(calls::number("getpid").unwrap()), Some("getpid"));
        /// assert_eq!(calls::number("make_coffee"), None);
        /// ```
        pub fn number(name: &str) -> Option<i64> {
            match name {
                $($(#[$when])? stringify!($name) => Some(numbers::$number),)*
                _ => None,
            }
        }

        /// The name of the system call `number`, if this table knows it.
        pub fn name(number: i64) -> Option<&'static str> {
            match number {
                $($(#[$when])? numbers::$number => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

/// The numbers of `libc`, and those that it lacks.
pub(crate) mod numbers {
    pub use libc::*;
    /// These are from Linux 6.5 and have the same number on all processors.
    #[allow(non_upper_case_globals, reason = "as `libc` names them")]
    pub const SYS_cachestat: c_long = 451;
}

calls! {
    read => SYS_read
    write => SYS_write
    readv => SYS_readv
    writev => SYS_writev
    pread64 => SYS_pread64
    pwrite64 => SYS_pwrite64
    preadv => SYS_preadv
    pwritev => SYS_pwritev
    preadv2 => SYS_preadv2
    pwritev2 => SYS_pwritev2
    lseek => SYS_lseek
    close => SYS_close
    close_range => SYS_close_range
    dup => SYS_dup
    dup3 => SYS_dup3
    fcntl => SYS_fcntl
    ioctl => SYS_ioctl
    fstat => SYS_fstat
    fstatfs => SYS_fstatfs
    fsync => SYS_fsync
    ftruncate => SYS_ftruncate
    fallocate => SYS_fallocate
    memfd_create => SYS_memfd_create
    memfd_secret => SYS_memfd_secret
    mmap => SYS_mmap
    munmap => SYS_munmap
    mprotect => SYS_mprotect
    mremap => SYS_mremap
    madvise => SYS_madvise
    mlock => SYS_mlock
    mincore => SYS_mincore
    cachestat => SYS_cachestat
    brk => SYS_brk
    futex => SYS_futex
    futex_waitv => SYS_futex_waitv
    membarrier => SYS_membarrier
    sched_yield => SYS_sched_yield
    sched_getaffinity => SYS_sched_getaffinity
    sched_setaffinity => SYS_sched_setaffinity
    sched_setscheduler => SYS_sched_setscheduler
    sched_setattr => SYS_sched_setattr
    getcpu => SYS_getcpu
    clock_gettime => SYS_clock_gettime
    clock_getres => SYS_clock_getres
    clock_nanosleep => SYS_clock_nanosleep
    clock_settime => SYS_clock_settime
    nanosleep => SYS_nanosleep
    gettimeofday => SYS_gettimeofday
    setitimer => SYS_setitimer
    timer_create => SYS_timer_create
    timerfd_create => SYS_timerfd_create
    timerfd_settime => SYS_timerfd_settime
    timerfd_gettime => SYS_timerfd_gettime
    eventfd2 => SYS_eventfd2
    epoll_create1 => SYS_epoll_create1
    epoll_ctl => SYS_epoll_ctl
    epoll_pwait => SYS_epoll_pwait
    epoll_pwait2 => SYS_epoll_pwait2
    ppoll => SYS_ppoll
    pselect6 => SYS_pselect6
    pipe2 => SYS_pipe2
    recvmsg => SYS_recvmsg
    recvmmsg => SYS_recvmmsg
    sendmsg => SYS_sendmsg
    sendmmsg => SYS_sendmmsg
    recvfrom => SYS_recvfrom
    sendto => SYS_sendto
    accept => SYS_accept
    accept4 => SYS_accept4
    shutdown => SYS_shutdown
    socket => SYS_socket
    socketpair => SYS_socketpair
    bind => SYS_bind
    listen => SYS_listen
    connect => SYS_connect
    getsockopt => SYS_getsockopt
    setsockopt => SYS_setsockopt
    getsockname => SYS_getsockname
    getpeername => SYS_getpeername
    getpid => SYS_getpid
    gettid => SYS_gettid
    getppid => SYS_getppid
    getuid => SYS_getuid
    geteuid => SYS_geteuid
    getgid => SYS_getgid
    getegid => SYS_getegid
    getrandom => SYS_getrandom
    getrusage => SYS_getrusage
    getrlimit => SYS_getrlimit
    setrlimit => SYS_setrlimit
    prlimit64 => SYS_prlimit64
    sysinfo => SYS_sysinfo
    uname => SYS_uname
    times => SYS_times
    prctl => SYS_prctl
    rseq => SYS_rseq
    set_robust_list => SYS_set_robust_list
    get_robust_list => SYS_get_robust_list
    set_tid_address => SYS_set_tid_address
    restart_syscall => SYS_restart_syscall
    rt_sigaction => SYS_rt_sigaction
    rt_sigprocmask => SYS_rt_sigprocmask
    rt_sigreturn => SYS_rt_sigreturn
    rt_sigpending => SYS_rt_sigpending
    rt_sigtimedwait => SYS_rt_sigtimedwait
    rt_sigqueueinfo => SYS_rt_sigqueueinfo
    rt_tgsigqueueinfo => SYS_rt_tgsigqueueinfo
    sigaltstack => SYS_sigaltstack
    kill => SYS_kill
    tkill => SYS_tkill
    tgkill => SYS_tgkill
    pidfd_open => SYS_pidfd_open
    pidfd_send_signal => SYS_pidfd_send_signal
    pidfd_getfd => SYS_pidfd_getfd
    clone => SYS_clone
    clone3 => SYS_clone3
    execve => SYS_execve
    execveat => SYS_execveat
    exit => SYS_exit
    exit_group => SYS_exit_group
    wait4 => SYS_wait4
    waitid => SYS_waitid
    ptrace => SYS_ptrace
    process_vm_readv => SYS_process_vm_readv
    process_vm_writev => SYS_process_vm_writev
    process_madvise => SYS_process_madvise
    kcmp => SYS_kcmp
    setpriority => SYS_setpriority
    setuid => SYS_setuid
    setgid => SYS_setgid
    setresuid => SYS_setresuid
    setsid => SYS_setsid
    setpgid => SYS_setpgid
    capset => SYS_capset
    unshare => SYS_unshare
    setns => SYS_setns
    mount => SYS_mount
    umount2 => SYS_umount2
    pivot_root => SYS_pivot_root
    chroot => SYS_chroot
    chdir => SYS_chdir
    fchdir => SYS_fchdir
    getcwd => SYS_getcwd
    openat => SYS_openat
    openat2 => SYS_openat2
    open_by_handle_at => SYS_open_by_handle_at
    newfstatat => SYS_newfstatat
    statx => SYS_statx
    statfs => SYS_statfs
    faccessat => SYS_faccessat
    faccessat2 => SYS_faccessat2
    readlinkat => SYS_readlinkat
    getdents64 => SYS_getdents64
    unlinkat => SYS_unlinkat
    renameat => SYS_renameat
    renameat2 => SYS_renameat2
    mkdirat => SYS_mkdirat
    mknodat => SYS_mknodat
    linkat => SYS_linkat
    symlinkat => SYS_symlinkat
    truncate => SYS_truncate
    fchmod => SYS_fchmod
    fchmodat => SYS_fchmodat
    fchown => SYS_fchown
    fchownat => SYS_fchownat
    utimensat => SYS_utimensat
    inotify_init1 => SYS_inotify_init1
    fanotify_init => SYS_fanotify_init
    io_uring_setup => SYS_io_uring_setup
    io_uring_enter => SYS_io_uring_enter
    io_uring_register => SYS_io_uring_register
    io_setup => SYS_io_setup
    bpf => SYS_bpf
    perf_event_open => SYS_perf_event_open
    userfaultfd => SYS_userfaultfd
    keyctl => SYS_keyctl
    add_key => SYS_add_key
    seccomp => SYS_seccomp
    landlock_create_ruleset => SYS_landlock_create_ruleset
    landlock_restrict_self => SYS_landlock_restrict_self
    shmget => SYS_shmget
    shmat => SYS_shmat
    msgget => SYS_msgget
    semget => SYS_semget
    mq_open => SYS_mq_open
    splice => SYS_splice
    tee => SYS_tee
    vmsplice => SYS_vmsplice
    sendfile => SYS_sendfile
    copy_file_range => SYS_copy_file_range
    reboot => SYS_reboot
    kexec_load => SYS_kexec_load
    init_module => SYS_init_module
    finit_module => SYS_finit_module
    personality => SYS_personality
    acct => SYS_acct
    swapon => SYS_swapon
    sethostname => SYS_sethostname
    syslog => SYS_syslog
    quotactl => SYS_quotactl
    name_to_handle_at => SYS_name_to_handle_at
    #[cfg(target_arch = "x86_64")] open => SYS_open
    #[cfg(target_arch = "x86_64")] creat => SYS_creat
    #[cfg(target_arch = "x86_64")] stat => SYS_stat
    #[cfg(target_arch = "x86_64")] lstat => SYS_lstat
    #[cfg(target_arch = "x86_64")] access => SYS_access
    #[cfg(target_arch = "x86_64")] readlink => SYS_readlink
    #[cfg(target_arch = "x86_64")] unlink => SYS_unlink
    #[cfg(target_arch = "x86_64")] rmdir => SYS_rmdir
    #[cfg(target_arch = "x86_64")] rename => SYS_rename
    #[cfg(target_arch = "x86_64")] mkdir => SYS_mkdir
    #[cfg(target_arch = "x86_64")] mknod => SYS_mknod
    #[cfg(target_arch = "x86_64")] link => SYS_link
    #[cfg(target_arch = "x86_64")] symlink => SYS_symlink
    #[cfg(target_arch = "x86_64")] chmod => SYS_chmod
    #[cfg(target_arch = "x86_64")] chown => SYS_chown
    #[cfg(target_arch = "x86_64")] lchown => SYS_lchown
    #[cfg(target_arch = "x86_64")] getdents => SYS_getdents
    #[cfg(target_arch = "x86_64")] fork => SYS_fork
    #[cfg(target_arch = "x86_64")] vfork => SYS_vfork
    #[cfg(target_arch = "x86_64")] dup2 => SYS_dup2
    #[cfg(target_arch = "x86_64")] pipe => SYS_pipe
    #[cfg(target_arch = "x86_64")] poll => SYS_poll
    #[cfg(target_arch = "x86_64")] select => SYS_select
    #[cfg(target_arch = "x86_64")] epoll_wait => SYS_epoll_wait
    #[cfg(target_arch = "x86_64")] epoll_create => SYS_epoll_create
    #[cfg(target_arch = "x86_64")] eventfd => SYS_eventfd
    #[cfg(target_arch = "x86_64")] alarm => SYS_alarm
    #[cfg(target_arch = "x86_64")] time => SYS_time
    #[cfg(target_arch = "x86_64")] arch_prctl => SYS_arch_prctl
    #[cfg(target_arch = "x86_64")] iopl => SYS_iopl
    #[cfg(target_arch = "x86_64")] ioperm => SYS_ioperm
    #[cfg(target_arch = "x86_64")] modify_ldt => SYS_modify_ldt
}
