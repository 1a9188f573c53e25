package breaker_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/respitehttp/respite/breaker"
)

func benchmark(b *testing.B, f func()) {
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
	b.Run("8 goroutines a core", func(b *testing.B) {
		b.SetParallelism(8)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				f()
			}
		})
	})
}

func BenchmarkSuccess(b *testing.B) {
	br := newBreaker(b, breaker.Config{})
	benchmark(b, func() {
		call, err := br.Allow()
		if err != nil {
			panic(err)
		}
		call.Succeed()
	})
}

func BenchmarkRefusal(b *testing.B) {
	br := newBreaker(b, breaker.Config{InitialRecoveryDelay: time.Hour})
	fail(b, br, 10)
	benchmark(b, func() {
		if _, err := br.Allow(); err == nil {
			panic("admitted")
		}
	})
}

// BenchmarkFailure records failures with so many remembered. They lie further
// apart than the window is long, so that none of them pauses sending.
func BenchmarkFailure(b *testing.B) {
	for _, n := range []int{10, 100, 10_000} {
		b.Run(fmt.Sprintf("of %d", n), func(b *testing.B) {
			br := newBreaker(b, breaker.Config{FailuresToEnterRecovery: n, FailuresWindow: time.Nanosecond})
			fail(b, br, n)
			benchmark(b, func() {
				call, _ := br.Allow()
				call.Fail(errDown)
			})
		})
	}
}

// BenchmarkMemory tells the bytes that one breaker holds: new, and with nine
// failures remembered.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for _, failures := range []int{0, 9} {
		b.Run(fmt.Sprintf("%d failures", failures), func(b *testing.B) {
			for b.Loop() {
				held := make([]*breaker.Breaker, n)
				before := heap()
				for i := range held {
					held[i] = newBreaker(b, breaker.Config{})
					fail(b, held[i], failures)
				}
				b.ReportMetric(float64(heap()-before)/n, "B/breaker")
				runtime.KeepAlive(held)
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
