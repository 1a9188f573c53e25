package breaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
)

func TestB14Wait(t *testing.T) {
	// tripped returns a breaker whose pause of 2 s begins now.
	tripped := func(t *testing.T) *breaker.Breaker {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		return b
	}
	// takes demands that f lasts exactly d.
	takes := func(t *testing.T, d time.Duration, f func()) {
		t.Helper()
		start := time.Now()
		f()
		require.Equal(t, d, time.Since(start))
	}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}

	run("closed", func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		takes(t, 0, func() { require.NoError(t, b.Wait(t.Context())) })
	})
	run("to the end of the pause", func(t *testing.T) {
		b := tripped(t)
		takes(t, 2*time.Second, func() { require.NoError(t, b.Wait(t.Context())) })
		takes(t, 0, func() { require.NoError(t, b.Wait(t.Context())) }) // nothing was reserved
		admit(t, b)
	})
	run("to the end of a trial", func(t *testing.T) {
		for _, tt := range []struct {
			settle func(*breaker.Call)
			more   time.Duration
		}{
			{(*breaker.Call).Succeed, 0},
			{(*breaker.Call).Cancel, 2 * time.Second},
			{func(c *breaker.Call) { c.Fail(errDown) }, 4 * time.Second},
		} {
			b := tripped(t)
			time.Sleep(2 * time.Second)
			trial := admit(t, b)
			time.AfterFunc(time.Second, func() { tt.settle(&trial) })
			takes(t, time.Second+tt.more, func() {
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() { require.NoError(t, b.Wait(t.Context())) })
				}
				wg.Wait()
			})
		}
	})
	run("to the end of a trial that hangs, and the pause after it", func(t *testing.T) {
		b := tripped(t)
		time.Sleep(2 * time.Second)
		admit(t, b)
		takes(t, 2*time.Minute+4*time.Second, func() { require.NoError(t, b.Wait(t.Context())) })
	})
	run("ctx ends in a pause", func(t *testing.T) {
		b := tripped(t)
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		takes(t, time.Second, func() { require.Equal(t, cause, b.Wait(ctx)) })
		takes(t, 0, func() { require.Equal(t, cause, b.Wait(ctx)) })
	})
	run("ctx ended before, and nothing to wait for", func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, b.Wait(ctx))
	})
	run("ctx ends during a trial", func(t *testing.T) {
		b := tripped(t)
		time.Sleep(2 * time.Second)
		admit(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		takes(t, time.Second, func() { require.Equal(t, context.DeadlineExceeded, b.Wait(ctx)) })
	})
	run("deadline before the end of the pause", func(t *testing.T) {
		b := tripped(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second-1)
		defer cancel()
		takes(t, 0, func() {
			var open *breaker.OpenError
			require.ErrorAs(t, b.Wait(ctx), &open)
			require.Equal(t, 2*time.Second, open.Remaining())
		})
		require.Zero(t, b.Stats().Refused, "no call was refused")
	})
	run("deadline after the end of the pause", func(t *testing.T) {
		b := tripped(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+1)
		defer cancel()
		takes(t, 2*time.Second, func() { require.NoError(t, b.Wait(ctx)) })
	})
}
