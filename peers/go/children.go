package main

import (
	"runtime"
	"time"
)

// How many children are started before the spawner waits until all of them have run.
const batch = 1000

// A goroutine starts a child and waits for its end and its result, count times.
func forkJoin(count int) time.Duration {
	// Room for one, so that the child need not wait for its parent to take it.
	result := make(chan int, 1)
	begun := time.Now()
	for i := 0; i < count; i++ {
		go func() { result <- i + 1 }()
		if <-result != i+1 {
			panic("not the child's result")
		}
	}
	return time.Since(begun)
}

// How many children have run.
var haveRun int

// The body of a child.
func child() { haveRun++ }

// A goroutine starts count children, and after each batch gives way until all of them have run.
func fork(count int) time.Duration {
	begun := time.Now()
	started := haveRun
	for last := started + count; started < last; {
		starting := min(batch, last-started)
		for i := 0; i < starting; i++ {
			go child()
		}
		started += starting
		for haveRun < started {
			runtime.Gosched()
		}
	}
	return time.Since(begun)
}
