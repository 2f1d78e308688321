package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Two goroutines give way to each other, count times in all. After about one in 61 the runtime lets the same one run on.
func yields(count int) time.Duration {
	done := -1
	ended := make(chan struct{})
	go func() {
		for done < count {
			done++
			runtime.Gosched()
		}
		close(ended)
	}()
	runtime.Gosched()
	begun, others := time.Now(), done
	mine := 0
	for ; done < count; mine++ {
		done++
		runtime.Gosched()
	}
	taken := time.Since(begun)
	if others = done - others - mine; others < count/3 {
		panic(fmt.Sprintf("only %d of %d turns were the other goroutine's", others, count))
	}
	<-ended
	return taken
}

// Two goroutines block and unblock each other over two unbuffered channels, count cycles.
func pingPongChannel(count int) time.Duration {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	defer close(there)
	begun := time.Now()
	for i := 0; i < count; i++ {
		there <- struct{}{}
		<-back
	}
	return time.Since(begun)
}

// Two goroutines hand each other the turn under a mutex that is let go of only in Wait.
func pingPongCondvar(count int) time.Duration {
	var mutex sync.Mutex
	changed := sync.NewCond(&mutex)
	turn := false
	ended := make(chan struct{})
	go func() {
		mutex.Lock()
		for i := 0; i < count; i++ {
			for !turn {
				changed.Wait()
			}
			turn = false
			changed.Signal()
		}
		mutex.Unlock()
		close(ended)
	}()
	mutex.Lock()
	begun := time.Now()
	for i := 0; i < count; i++ {
		turn = true
		changed.Signal()
		for turn {
			changed.Wait()
		}
	}
	taken := time.Since(begun)
	mutex.Unlock()
	<-ended
	return taken
}
