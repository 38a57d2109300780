// Goroutines whose stacks grow and are moved, panics out of faults, preemption, channels and garbage, checked, for as many seconds as the
// argument says.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var requests atomic.Int64

func wrong(what string) {
	fmt.Println("wrong:", what)
	os.Exit(1)
}

//go:noinline
func deep(n int) int {
	var room [96]byte
	room[n%96] = 1
	if n == 0 {
		return 0
	}
	return deep(n-1) + int(room[n%96])
}

//go:noinline
func fault(kind int) (result string) {
	defer func() { result = fmt.Sprint(recover()) }()
	var none *int
	var empty []int
	switch kind % 3 {
	case 0:
		return fmt.Sprint(*none)
	case 1:
		return fmt.Sprint(empty[kind])
	}
	panic("own")
}

//go:noinline
func step(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

func steps(x uint64, n int) uint64 {
	for i := 0; i < n; i++ {
		x = step(x)
	}
	return x
}

func round(k int, expected uint64, pass chan int) {
	if n := 500 + k%4000; deep(n) != n {
		wrong("recursion")
	}
	switch got := fault(k); k % 3 {
	case 0:
		if got != "runtime error: invalid memory address or nil pointer dereference" {
			wrong(got)
		}
	case 1:
		if got != fmt.Sprintf("runtime error: index out of range [%d] with length 0", k) {
			wrong(got)
		}
	default:
		if got != "own" {
			wrong(got)
		}
	}
	if steps(1, 50000) != expected {
		wrong("steps")
	}
	values := make([]int, 300)
	for i := range values {
		values[i] = (i * 7919) % 301
	}
	if sort.Ints(values); !sort.IntsAreSorted(values) {
		wrong("sort")
	}
	if sum := sha256.Sum256([]byte("abc")); sum[0] != 0xba || sum[31] != 0xad {
		wrong("sha256")
	}
	pass <- k
	<-pass
	requests.Add(1)
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	runtime.GOMAXPROCS(4)
	expected := steps(1, 50000)
	pass := make(chan int, 100)
	var group sync.WaitGroup
	for g := 0; g < 16; g++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for k := 0; time.Now().Before(end); k++ {
				round(k, expected, pass)
				if k%20 == 0 {
					runtime.GC()
				}
			}
		}()
	}
	group.Wait()
	fmt.Println("requests", requests.Load())
}
