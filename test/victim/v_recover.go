// Faults that Go turns into panics, recovered: the stack that the deferred function sees has the function that faulted, which Go finds by its
// pc. Other goroutines run and are preempted meanwhile.
//
//	v_recover [ROUNDS]
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

type node struct {
	pad   [4]int
	value int
}

//go:noinline
func load(n *node) int { return n.value }

//go:noinline
func divide(a, b int) int { return a / b }

// Whether the function is on the stack of the panic.
func isOnStack(name string) bool {
	var pc [32]uintptr
	frames := runtime.CallersFrames(pc[:runtime.Callers(0, pc[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}

//go:noinline
func try(work func() int, name string) (result int) {
	defer func() {
		if recover() != nil {
			if !isOnStack(name) {
				fmt.Println("not on the stack:", name)
				os.Exit(1)
			}
			result = -1
		}
	}()
	return work()
}

func main() {
	rounds := 1000
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	stop, done := make(chan bool), make(chan bool)
	for i := 0; i < 2; i++ {
		go func() {
			busy := &node{value: 1}
			for {
				for k := 0; k < 100000; k++ {
					busy.value += load(busy) & 1
				}
				select {
				case <-stop:
					done <- true
					return
				default:
				}
			}
		}()
	}
	sum := 0
	for i := 0; i < rounds; i++ {
		sum += try(func() int { return load(nil) }, "main.load")
		sum += try(func() int { return load(&node{value: 3}) }, "main.load")
		sum += try(func() int { return divide(6, i%2) }, "main.divide")
	}
	close(stop)
	for i := 0; i < 2; i++ {
		<-done
	}
	fmt.Println("sum", sum)
}
