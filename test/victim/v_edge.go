// Goroutines that call a function at every place near the end of their stacks, beside goroutines whose stacks are full of known numbers, lie one
// behind the other in memory, and show when a stack was written past its end. The garbage collector moves stacks meanwhile. Ends when a line
// or the end of stdin comes, if all sums are right; says how often edge() was called.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

const goroutines = 48

var over int32
var called int64

//go:noinline
//go:nosplit
func edge(n int) int { return n*7 + 3 }

// A frame of a few words, so that some call or other comes close to the end whatever the size of the stack is.
//
//go:noinline
func down(n int) int {
	if n == 0 {
		return edge(n)
	}
	return edge(n) + down(n-1)
}

func expected(n int) int { return 7*n*(n+1)/2 + 3*(n+1) }

//go:noinline
func keep(seed int, wake chan bool) {
	var kept [100]int
	for i := range kept {
		kept[i] = seed + i*i
	}
	for range wake {
		for i := range kept {
			if kept[i] != seed+i*i {
				fmt.Println("wrong: what a goroutine keeps on its stack")
				os.Exit(1)
			}
		}
	}
}

func work(number int) {
	count := int64(0)
	for round := 0; atomic.LoadInt32(&over) == 0; round++ {
		depth := 10 + (round*37+number*11)%600
		done := make(chan int)
		go func() { done <- down(depth) }()
		if found := <-done; found != expected(depth) {
			fmt.Println("wrong:", found, "instead of", expected(depth))
			os.Exit(1)
		}
		count += int64(depth + 1)
	}
	atomic.AddInt64(&called, count)
}

func main() {
	var workers, keepers sync.WaitGroup
	var wake [goroutines]chan bool
	for i := range wake {
		wake[i] = make(chan bool)
		workers.Add(1)
		keepers.Add(1)
		go func(i int) { defer workers.Done(); work(i) }(i)
		go func(i int) { defer keepers.Done(); keep(i, wake[i]) }(i)
	}
	go func() {
		for atomic.LoadInt32(&over) == 0 {
			for i := range wake {
				wake[i] <- true
			}
			runtime.GC()
		}
		for i := range wake {
			close(wake[i])
		}
	}()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	atomic.StoreInt32(&over, 1)
	workers.Wait()
	keepers.Wait()
	fmt.Println("edge", called)
}
