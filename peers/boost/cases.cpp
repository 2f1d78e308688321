#include "cases.hpp"

#include <algorithm>
#include <boost/fiber/all.hpp>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <utility>

namespace fibers = boost::fibers;
using boost::this_fiber::yield;
using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::nanoseconds;

namespace {

// How many children are started before the spawner waits until all of them have run.
constexpr std::uint64_t batch = 1000;

// How many children have run.
std::uint64_t have_run = 0;

// Starts a fiber at once; its parent runs on when it blocks, yields or ends. That is faster than `launch::post`.
// Its stack has 32 KiB, as may's, and comes from a pool, so that it need not be mapped anew.
template <typename Body> fibers::fiber start(Body &&body) {
    static fibers::pooled_fixedsize_stack stacks(32 * 1024);
    return fibers::fiber(fibers::launch::dispatch, std::allocator_arg, stacks, std::forward<Body>(body));
}

void demand(bool holds, const char *what) {
    if (!holds) {
        std::cerr << "boost-fiber: " << what << std::endl;
        std::abort();
    }
}

// Hides from the optimizer what becomes of a value, and where it came from.
void opaque(std::uint64_t &value) { asm volatile("" : "+r"(value)); }

__attribute__((noinline)) std::uint64_t increment(std::uint64_t number) {
    opaque(number);
    return number + 1;
}

} // namespace

Nanoseconds yields(std::uint64_t count) {
    bool stop = false;
    std::uint64_t turns = 0;
    fibers::fiber other = start([&] {
        while (!stop) {
            ++turns;
            yield();
        }
    });
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < (count + 1) / 2; ++i) {
        yield();
    }
    const auto taken = Clock::now() - begun;
    demand(turns >= count / 2, "too few turns of the other fiber");
    stop = true;
    other.join();
    return taken;
}

Nanoseconds fork_join(std::uint64_t count) {
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t result = 0;
        start([&result, i] { result = i + 1; }).join();
        demand(result == i + 1, "not the child's result");
    }
    return Clock::now() - begun;
}

Nanoseconds fork_batches(std::uint64_t count) {
    const auto begun = Clock::now();
    std::uint64_t started = have_run;
    for (const std::uint64_t last = started + count; started < last;) {
        const std::uint64_t starting = std::min(batch, last - started);
        for (std::uint64_t i = 0; i < starting; ++i) {
            start([] { ++have_run; }).detach();
        }
        started += starting;
        while (have_run < started) {
            yield();
        }
    }
    return Clock::now() - begun;
}

Nanoseconds lock(std::uint64_t count) {
    fibers::mutex mutex;
    std::uint64_t number = 0;
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::lock_guard<fibers::mutex> guard(mutex);
        opaque(++number);
    }
    return Clock::now() - begun;
}

Nanoseconds ping_pong(std::uint64_t count) {
    fibers::unbuffered_channel<int> there, back;
    fibers::fiber other = start([&] {
        int ball = 0;
        while (there.pop(ball) == fibers::channel_op_status::success) {
            back.push(ball);
        }
    });
    int ball = 0;
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        there.push(ball);
        back.pop(ball);
    }
    const auto taken = Clock::now() - begun;
    there.close();
    other.join();
    return taken;
}

Nanoseconds ping_pong_condvar(std::uint64_t count) {
    fibers::mutex mutex;
    fibers::condition_variable changed;
    bool turn = false;
    fibers::fiber other = start([&] {
        std::unique_lock<fibers::mutex> guard(mutex);
        for (std::uint64_t i = 0; i < count; ++i) {
            while (!turn) {
                changed.wait(guard);
            }
            turn = false;
            changed.notify_one();
        }
    });
    std::unique_lock<fibers::mutex> guard(mutex);
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        turn = true;
        changed.notify_one();
        while (turn) {
            changed.wait(guard);
        }
    }
    const auto taken = Clock::now() - begun;
    guard.unlock();
    other.join();
    return taken;
}

Nanoseconds park(std::uint64_t count) {
    fibers::context *const ours = fibers::context::active();
    fibers::context *theirs = nullptr;
    fibers::fiber other = start([&] {
        theirs = fibers::context::active();
        for (std::uint64_t i = 0; i < count; ++i) {
            theirs->suspend();
            theirs->schedule(ours);
        }
    });
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        ours->schedule(theirs);
        ours->suspend();
    }
    const auto taken = Clock::now() - begun;
    other.join();
    return taken;
}

Nanoseconds call(std::uint64_t count) {
    const auto begun = Clock::now();
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t next = increment(i);
        opaque(next);
    }
    return Clock::now() - begun;
}
