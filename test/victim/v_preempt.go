// Many goroutines that compute without a pause, so that the runtime interrupts each again and again by a signal: mostly behind the first
// instruction of a function, which waits for memory. Ends when a line or the end of stdin comes, if all results were right.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

const nodes = 1 << 19

type node struct {
	next   *node
	number uint32
	pad    [3]uint64
}

//go:noinline
func after(n *node) uint32 { return n.next.number }

func walk(all []node) uint32 {
	at, sum := uint32(0), uint32(0)
	for i := 0; i < 20000; i++ {
		at = after(&all[at%nodes])*166013 + 71
		sum = sum*31 + at
	}
	return sum
}

func main() {
	const goroutines = 200
	var over int32
	var group sync.WaitGroup
	var rounds int64
	all := make([]node, nodes)
	for i := range all {
		all[i].number = uint32(i)
		all[i].next = &all[(uint32(i)*7919+13)%nodes]
	}
	expected := walk(all)
	for g := 0; g < goroutines; g++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for atomic.LoadInt32(&over) == 0 {
				if walk(all) != expected {
					fmt.Println("wrong")
					os.Exit(1)
				}
				atomic.AddInt64(&rounds, 1)
			}
		}()
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	atomic.StoreInt32(&over, 1)
	group.Wait()
	fmt.Println("walked:", rounds > 0)
}
