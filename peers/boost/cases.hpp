// The cases: each does `count` operations and says how long they took.
#pragma once

#include <chrono>
#include <cstdint>

// Two fibers give way to each other, `count` switches in all.
std::chrono::nanoseconds yields(std::uint64_t count);
// A fiber starts a child and waits for its end and its result.
std::chrono::nanoseconds fork_join(std::uint64_t count);
// A fiber starts children, and after each thousand gives way until all of them have run.
std::chrono::nanoseconds fork_batches(std::uint64_t count);
// Acquires and releases a mutex that nobody else wants.
std::chrono::nanoseconds lock(std::uint64_t count);
// Two fibers block and unblock each other: the fastest way that needs no more than the fibers' own primitives.
std::chrono::nanoseconds ping_pong(std::uint64_t count);
// Two fibers hand each other the turn under a mutex that is let go of only in `wait`.
std::chrono::nanoseconds ping_pong_condvar(std::uint64_t count);
// Two fibers suspend themselves and schedule each other.
std::chrono::nanoseconds park(std::uint64_t count);
// A procedure call.
std::chrono::nanoseconds call(std::uint64_t count);
