package breaker

import (
	"sync/atomic"
	"unsafe"
)

// counter counts events of many goroutines at once. A single atomic number would
// be passed from core to core with each event, which costs more than all the rest
// of a refusal. So each goroutine has one of a few cells, chosen by the address of
// its stack: only a spread matters, and any cell is right. A nil counter is at 0.
type counter [8]struct {
	n atomic.Uint64
	_ [56]byte // the rest of the cache line
}

// add counts one event; the stack is that of the goroutine, at any variable on it.
func (c *counter) add(stack *Call) {
	const smallestStack, golden = 2048, 0x9E3779B1
	cell := uint32(uintptr(unsafe.Pointer(stack))/smallestStack) * golden >> 29
	c[cell].n.Add(1)
}

func (c *counter) sum() (n uint64) {
	if c != nil {
		for i := range c {
			n += c[i].n.Load()
		}
	}
	return n
}
