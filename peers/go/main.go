// What Go takes with one processor (GOMAXPROCS 1). The protocol is that of ../README.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// The most operations that are done, unmeasured, before those that are measured.
const warmUp = 10_000

// A way to do a number of operations, and how long they took.
type measure func(count int) time.Duration

var cases = []struct {
	name string
	run  measure
}{
	{"yield", yields},
	{"fork-join", forkJoin},
	{"fork", fork},
	{"lock", lock},
	{"ping-pong", pingPongChannel},
	{"ping-pong-condvar", pingPongCondvar},
	{"blocking", blocking},
	{"blocking-direct", blockingDirect},
	{"call", call},
}

// Carries out `CASE N`.
func obey(command string) (time.Duration, error) {
	name, number, _ := strings.Cut(command, " ")
	count, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || count <= 0 {
		return 0, fmt.Errorf("`%s` is not `CASE N`", command)
	}
	for _, known := range cases {
		if known.name == name {
			known.run(min(count, warmUp))
			return max(known.run(count), 1), nil
		}
	}
	return 0, fmt.Errorf("no case `%s` here; the first line that was printed lists them", name)
}

func main() {
	runtime.GOMAXPROCS(1)
	names := make([]string, len(cases))
	for i, known := range cases {
		names[i] = strconv.Quote(known.name)
	}
	version := strings.TrimPrefix(runtime.Version(), "go")
	fmt.Printf("{\"peer\":\"go\",\"version\":%q,\"cases\":[%s]}\n", version, strings.Join(names, ","))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command := strings.TrimSpace(lines.Text())
		if command == "quit" {
			return
		}
		if taken, err := obey(command); err != nil {
			fmt.Println("error", err)
		} else {
			fmt.Println(taken.Nanoseconds())
		}
	}
}
