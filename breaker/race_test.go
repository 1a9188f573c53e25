package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInvariants lets many goroutines do everything at once, in all orders that
// the scheduler finds, and checks what must hold in each of them. It is of most
// use under the race detector.
func TestInvariants(t *testing.T) {
	cfg := Config{
		FailuresToEnterRecovery: 3,
		FailuresWindow:          50,
		InitialRecoveryDelay:    10,
		MaxRecoveryDelay:        70,
		Jitter:                  0.5,
		TrialTimeout:            20,
	}
	synctest.Test(t, func(t *testing.T) {
		var (
			changes   []Change // OnChange is called one at a time: the race detector would tell
			inHook    atomic.Bool
			trials    atomic.Int64 // admitted, and neither reported nor out of time
			refusals  atomic.Uint64
			admission sync.Map // the instants at which calls were admitted while closed
		)
		cfg.OnChange = func(c Change) {
			require.True(t, inHook.CompareAndSwap(false, true), "OnChange, one at a time")
			defer inHook.Store(false)
			changes = append(changes, c)
			if rand.IntN(4) == 0 {
				runtime.Gosched()
			}
		}
		b, err := New(cfg)
		require.NoError(t, err)

		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 1000 {
					switch rand.IntN(12) {
					case 0:
						time.Sleep(time.Duration(rand.IntN(8)))
					case 1:
						b.Fail(nil)
					case 2:
						b.Stats()
					case 3:
						require.NoError(t, b.Wait(t.Context()))
					}
					asked := time.Now() // time stands still in the bubble while this one runs
					call, err := b.Allow()
					if err != nil {
						refusals.Add(1)
						continue
					}
					trial := call.epoch.paused()
					if trial {
						require.Equal(t, int64(1), trials.Add(1), "one trial at a time")
						if rand.IntN(8) == 0 { // forgotten
							trials.Add(-1)
							continue
						}
					} else {
						admission.Store(asked, true)
					}
					for range rand.IntN(3) {
						runtime.Gosched()
					}
					if trial {
						trials.Add(-1) // before the report lets another in
					}
					switch rand.IntN(3) {
					case 0:
						call.Succeed()
					case 1:
						call.Fail(nil)
					case 2:
						call.Cancel()
					}
				}
			})
		}
		wg.Wait()

		// Every change goes on from the one before it.
		state, at := Closed, time.Time{}
		for _, c := range changes {
			require.Equal(t, state, c.From)
			require.NotEqual(t, c.From, c.To)
			require.False(t, c.At.Before(at))
			state, at = c.To, c.At
			if c.To != Open {
				continue
			}
			// Every pause is within its bounds.
			pause := c.Until.Sub(c.At)
			require.LessOrEqual(t, pause, c.Delay)
			require.GreaterOrEqual(t, pause, c.Delay/2)
			require.LessOrEqual(t, c.Delay, cfg.MaxRecoveryDelay)
			require.GreaterOrEqual(t, c.Delay, cfg.InitialRecoveryDelay)
			// No call was admitted within it. At its first instant calls may come
			// before or after it, so that one does not count.
			admission.Range(func(at, _ any) bool {
				require.False(t, at.(time.Time).After(c.At) && at.(time.Time).Before(c.Until), "admitted in a pause")
				return true
			})
		}

		// Nothing is left behind, and nothing was miscounted.
		require.Empty(t, b.notify.pending)
		require.False(t, b.notify.delivering)
		s := b.Stats()
		require.Equal(t, refusals.Load(), s.Refused)
		var opened, tried uint64
		for _, c := range changes {
			switch c.To {
			case Open:
				opened++
			case HalfOpen:
				tried++
			}
		}
		require.Equal(t, opened, s.Opened)
		require.Equal(t, tried, s.Trials)
		require.Greater(t, opened, uint64(10), "the test has seen pauses")
	})
}
