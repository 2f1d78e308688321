package main

import (
	"sync"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname
)

// A mutex that nobody else wants.
var mutex struct {
	sync.Mutex
	number int
}

// Acquires and releases a mutex that nobody else wants.
func lock(count int) time.Duration {
	begun := time.Now()
	for i := 0; i < count; i++ {
		mutex.Lock()
		mutex.number++
		mutex.Unlock()
	}
	return time.Since(begun)
}

// What the runtime does around a system call: the time of count getppid with it, less that of as many without it.
// Both are done by turns of a thousand, so that both meet the same disturbances.
func blocking(count int) time.Duration {
	var with, without time.Duration
	for done := 0; done < count; done += batch {
		turn := min(batch, count-done)
		begun := time.Now()
		for i := 0; i < turn; i++ {
			syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
		between := time.Now()
		for i := 0; i < turn; i++ {
			syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
		}
		with += between.Sub(begun)
		without += time.Since(between)
	}
	return with - without
}

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// The two halves of the bracket with nothing between them. One frame for both, that does not grow: the runtime's rule.
//
//go:noinline
//go:nosplit
func bracket() {
	entersyscall()
	exitsyscall()
}

// The bracket called by name, without a system call. The runtime lets gVisor do so, and thus us.
func blockingDirect(count int) time.Duration {
	begun := time.Now()
	for i := 0; i < count; i++ {
		bracket()
	}
	return time.Since(begun)
}

// Adds one.
//
//go:noinline
func increment(number int) int { return number + 1 }

// Where the result of calls goes, so that they are not left out.
var sum int

// Calls a procedure count times.
func call(count int) time.Duration {
	begun := time.Now()
	for i := 0; i < count; i++ {
		sum = increment(i)
	}
	return time.Since(begun)
}
