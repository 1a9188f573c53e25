package breaker_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
)

var errDown = errors.New("503 Service Unavailable")

func newBreaker(t testing.TB, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	require.NoError(t, err)
	return b
}

func admit(t testing.TB, b *breaker.Breaker) breaker.Call {
	t.Helper()
	call, err := b.Allow()
	require.NoError(t, err)
	return call
}

func fail(t testing.TB, b *breaker.Breaker, times int) {
	t.Helper()
	for range times {
		call := admit(t, b)
		call.Fail(errDown)
	}
}

func succeed(t testing.TB, b *breaker.Breaker) {
	t.Helper()
	call := admit(t, b)
	call.Succeed()
}

// refused demands that a call is refused now, for the given time more.
func refused(t testing.TB, b *breaker.Breaker, state breaker.State, remaining time.Duration) {
	t.Helper()
	call, err := b.Allow()
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	require.Equal(t, state, open.State)
	require.Equal(t, remaining, open.Remaining())
	require.Equal(t, breaker.Call{}, call)
}

// closed demands that calls are admitted and so many failures count.
func closed(t testing.TB, b *breaker.Breaker, failures int) {
	t.Helper()
	s := b.Stats()
	require.Equal(t, breaker.Closed, s.State)
	require.Equal(t, failures, s.Failures)
	require.Zero(t, s.Delay)
	require.Zero(t, s.Until)
	require.Equal(t, breaker.Closed, b.State())
}

// paused demands a pause of the given delay that has so much time to go.
func paused(t testing.TB, b *breaker.Breaker, delay, remaining time.Duration) {
	t.Helper()
	s := b.Stats()
	require.Equal(t, breaker.Open, s.State)
	require.Zero(t, s.Failures)
	require.Equal(t, delay, s.Delay)
	require.Equal(t, remaining, time.Until(s.Until))
	require.Equal(t, breaker.Open, b.State())
}

func TestConfigFaults(t *testing.T) {
	for _, good := range []breaker.Config{
		{},
		{FailuresToEnterRecovery: 10_000, FailuresWindow: 1, InitialRecoveryDelay: 1, MaxRecoveryDelay: 1, RecoveryMultiplier: 1, Jitter: 0.999, TrialTimeout: 1},
		{InitialRecoveryDelay: time.Hour}, // the default of MaxRecoveryDelay goes along
	} {
		_, err := breaker.New(good)
		require.NoError(t, err, "%+v", good)
	}

	_, err := breaker.New(breaker.Config{
		FailuresToEnterRecovery: 10_001,
		FailuresWindow:          -1,
		InitialRecoveryDelay:    -2,
		MaxRecoveryDelay:        -1,
		RecoveryMultiplier:      0.5,
		Jitter:                  1,
		TrialTimeout:            -3,
	})
	require.EqualError(t, err, `breaker: FailuresToEnterRecovery is 10001; accepted: 1 to 10000, or 0 for 10
breaker: FailuresWindow is -1ns; accepted: > 0, or 0 for 1m40s
breaker: InitialRecoveryDelay is -2ns; accepted: > 0, or 0 for 2s
breaker: MaxRecoveryDelay is -1ns; accepted: > 0 and >= InitialRecoveryDelay (-2ns), or 0 for the larger of 5m0s and that
breaker: RecoveryMultiplier is 0.5; accepted: >= 1 and finite, or 0 for 2
breaker: Jitter is 1; accepted: >= 0 and < 1
breaker: TrialTimeout is -3ns; accepted: > 0, or 0 for 2m0s`)

	_, err = breaker.New(breaker.Config{MaxRecoveryDelay: time.Second, FailuresToEnterRecovery: -1})
	require.EqualError(t, err, `breaker: FailuresToEnterRecovery is -1; accepted: 1 to 10000, or 0 for 10
breaker: MaxRecoveryDelay is 1s; accepted: > 0 and >= InitialRecoveryDelay (2s), or 0 for the larger of 5m0s and that`)
}

// D38: comparisons with NaN are false, so a plain range check lets it pass.
func TestConfigNotANumber(t *testing.T) {
	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0.5} {
		_, err := breaker.New(breaker.Config{RecoveryMultiplier: odd})
		require.ErrorContains(t, err, fmt.Sprint("RecoveryMultiplier is ", odd))
		if odd != 0.5 {
			_, err = breaker.New(breaker.Config{Jitter: odd})
			require.ErrorContains(t, err, fmt.Sprint("Jitter is ", odd))
		}
	}
}

// D20: nine failures, a thousand successes, one failure.
func TestB1SuccessesDoNotResetTheCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 9)
		for range 1000 {
			time.Sleep(50 * time.Millisecond)
			succeed(t, b)
		}
		closed(t, b, 9)
		fail(t, b, 1)
		paused(t, b, 2*time.Second, 2*time.Second)
	})
}

// D17 and D18.
func TestB2Window(t *testing.T) {
	every := func(t *testing.T, interval time.Duration, times int) *breaker.Breaker {
		b := newBreaker(t, breaker.Config{})
		for i := range times {
			if i > 0 {
				time.Sleep(interval)
			}
			fail(t, b, 1)
		}
		return b
	}
	const edge = 100 * time.Second / 9 // times 9 is 99.999999999 s
	for _, tt := range []struct {
		name     string
		interval time.Duration
		opens    bool
	}{
		{"12 s apart", 12 * time.Second, false},
		{"11 s apart", 11 * time.Second, true},
		{"just within the window", edge, true},
		{"just outside", edge + 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := every(t, tt.interval, 10)
				if tt.opens {
					paused(t, b, 2*time.Second, 2*time.Second)
				} else {
					closed(t, b, 9)
					fail(t, b, 1)
					paused(t, b, 2*time.Second, 2*time.Second)
				}
			})
		})
	}
	t.Run("as old as the window still counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{})
			fail(t, b, 9)
			time.Sleep(100 * time.Second)
			closed(t, b, 9)
			fail(t, b, 1)
			paused(t, b, 2*time.Second, 2*time.Second)
		})
	})
	t.Run("a nanosecond older does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{})
			fail(t, b, 9)
			time.Sleep(100*time.Second + 1)
			closed(t, b, 0)
			fail(t, b, 9)
			closed(t, b, 9)
			fail(t, b, 1)
			paused(t, b, 2*time.Second, 2*time.Second)
		})
	})
	t.Run("a single failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{FailuresToEnterRecovery: 1})
			fail(t, b, 1)
			paused(t, b, 2*time.Second, 2*time.Second)
		})
	})
}

func TestB3PauseRefusesUntilItsLastInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		refused(t, b, breaker.Open, 2*time.Second)
		time.Sleep(2*time.Second - 1)
		refused(t, b, breaker.Open, 1)
		require.Equal(t, breaker.Open, b.State())
		time.Sleep(time.Nanosecond)
		require.Equal(t, breaker.HalfOpen, b.State())
		require.Equal(t, breaker.HalfOpen, b.Stats().State)
		admit(t, b)
		refused(t, b, breaker.HalfOpen, 2*time.Minute)
		require.Equal(t, uint64(3), b.Stats().Refused)
	})
}

// D16, with a hundred goroutines at the same instant.
func TestB4OneTrialAmongAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		time.Sleep(2 * time.Second)

		var wg sync.WaitGroup
		trials := make(chan breaker.Call, 100)
		for range 100 {
			wg.Go(func() {
				if call, err := b.Allow(); err == nil {
					trials <- call
				}
			})
		}
		wg.Wait()
		require.Len(t, trials, 1)
		require.Equal(t, uint64(99), b.Stats().Refused)

		trial := <-trials
		trial.Succeed()
		closed(t, b, 0)
		for range 100 {
			succeed(t, b)
		}
	})
}

// D36: the sequence of the specification, and no end to it.
func TestB4B5B11PausesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		for i := range 1000 {
			want := 300 * time.Second
			if i < 8 {
				want = 2 * time.Second << i
			}
			paused(t, b, want, want)
			time.Sleep(want - time.Millisecond)
			refused(t, b, breaker.Open, time.Millisecond)
			time.Sleep(2 * time.Millisecond)
			trial := admit(t, b)
			time.Sleep(time.Second)
			trial.Fail(errDown) // the pause runs from here
		}
		s := b.Stats()
		assert.Equal(t, uint64(1010), s.Failed)
		assert.Equal(t, uint64(1001), s.Opened)
		assert.Equal(t, uint64(1000), s.Trials)
		assert.Equal(t, uint64(1000), s.Refused)

		time.Sleep(300 * time.Second)
		succeed(t, b)
		closed(t, b, 0)
		fail(t, b, 9)
		closed(t, b, 9)
		fail(t, b, 1)
		paused(t, b, 2*time.Second, 2*time.Second)
	})
}

// D19.
func TestB6CancelledTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		time.Sleep(2 * time.Second)
		trial := admit(t, b)
		time.Sleep(time.Second)
		trial.Cancel()
		paused(t, b, 2*time.Second, 2*time.Second)
		time.Sleep(2*time.Second - 1)
		refused(t, b, breaker.Open, 1)
		time.Sleep(time.Nanosecond)
		fail(t, b, 1) // grows from 2 s
		paused(t, b, 4*time.Second, 4*time.Second)
		time.Sleep(4 * time.Second)
		fail(t, b, 1)
		paused(t, b, 8*time.Second, 8*time.Second)

		time.Sleep(8 * time.Second)
		trial = admit(t, b)
		trial.Cancel() // shorter, but the growth is kept
		paused(t, b, 2*time.Second, 2*time.Second)
		time.Sleep(2 * time.Second)
		trial = admit(t, b)
		trial.Cancel()
		paused(t, b, 2*time.Second, 2*time.Second)
		time.Sleep(2 * time.Second)
		fail(t, b, 1)
		paused(t, b, 16*time.Second, 16*time.Second)
	})
}

func TestB6DeferredCancel(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("boom") },
		"Goexit": runtime.Goexit,
		"return": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, breaker.Config{})
				fail(t, b, 10)
				time.Sleep(2 * time.Second)
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recover() }()
					call := admit(t, b)
					defer call.Cancel()
					end()
				}()
				<-done
				paused(t, b, 2*time.Second, 2*time.Second)
			})
		})
	}
}

func TestB7TrialTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		fail(t, b, 10)
		time.Sleep(2 * time.Second)
		trial := admit(t, b)
		time.Sleep(2*time.Minute - 1)
		refused(t, b, breaker.HalfOpen, 1)
		time.Sleep(time.Nanosecond)
		paused(t, b, 4*time.Second, 4*time.Second) // failed at this instant
		_, err := b.Allow()
		require.ErrorContains(t, err, "trial has not reported within 2m0s")

		trial.Succeed() // too late
		paused(t, b, 4*time.Second, 4*time.Second)
	})
	t.Run("noticed by a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(t, breaker.Config{})
			fail(t, b, 10)
			time.Sleep(2 * time.Second)
			admit(t, b)
			time.Sleep(2 * time.Minute)
			refused(t, b, breaker.Open, 4*time.Second)
			require.Equal(t, uint64(1), b.Stats().Refused)
		})
	})
	t.Run("noticed late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var changes []breaker.Change
			b := newBreaker(t, breaker.Config{OnChange: func(c breaker.Change) { changes = append(changes, c) }})
			fail(t, b, 10)
			time.Sleep(2 * time.Second)
			trial := admit(t, b)
			time.Sleep(time.Hour)
			trial.Fail(errDown) // dropped: it would have paused sending for 4 s from now
			require.Equal(t, breaker.HalfOpen, b.State())

			failed := changes[len(changes)-1]
			assert.Equal(t, breaker.HalfOpen, failed.From)
			assert.Equal(t, breaker.Open, failed.To)
			assert.Equal(t, time.Hour-2*time.Minute, time.Since(failed.At))
			assert.Equal(t, 4*time.Second, failed.Until.Sub(failed.At))
			assert.Equal(t, 4*time.Second, failed.Delay)
			assert.Equal(t, 1, failed.Failures)
			assert.EqualError(t, failed.Cause, "trial has not reported within 2m0s")

			fail(t, b, 1) // the next trial is due at once
			paused(t, b, 8*time.Second, 8*time.Second)
		})
	})
}

// D15, for each report and each state it may come too late for.
func TestB8OldReportsAreDropped(t *testing.T) {
	reports := map[string]func(*breaker.Call){
		"success": (*breaker.Call).Succeed,
		"failure": func(c *breaker.Call) { c.Fail(errDown) },
		"cancel":  (*breaker.Call).Cancel,
	}
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBreaker(t, breaker.Config{})
				var old [3]breaker.Call
				for i := range old {
					old[i] = admit(t, b)
				}
				fail(t, b, 10)
				time.Sleep(time.Second)
				report(&old[0])
				paused(t, b, 2*time.Second, time.Second)

				time.Sleep(time.Second)
				trial := admit(t, b)
				report(&old[1])
				refused(t, b, breaker.HalfOpen, 2*time.Minute)
				trial.Succeed()

				report(&old[2]) // admitted while closed, reported while closed, but not the same
				closed(t, b, 0)

				fail(t, b, 10)
				time.Sleep(2 * time.Second)
				overdue := admit(t, b)
				time.Sleep(time.Hour)
				admit(t, b)
				report(&overdue) // a trial, during a trial
				refused(t, b, breaker.HalfOpen, 2*time.Minute)
			})
		})
	}
}

func TestB9FirstReportCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{FailuresToEnterRecovery: 2})
		call := admit(t, b)
		call.Fail(errDown)
		call.Fail(errDown)
		call.Cancel()
		closed(t, b, 1)
		call = admit(t, b)
		call.Succeed()
		call.Fail(errDown)
		closed(t, b, 1)
		call = admit(t, b)
		call.Cancel()
		call.Fail(errDown)
		closed(t, b, 1)

		fail(t, b, 1)
		time.Sleep(2 * time.Second)
		trial := admit(t, b)
		trial.Fail(errDown)
		trial.Cancel()
		trial.Succeed()
		paused(t, b, 4*time.Second, 4*time.Second)
		time.Sleep(4 * time.Second)
		trial = admit(t, b)
		trial.Succeed()
		trial.Cancel()
		trial.Fail(errDown)
		closed(t, b, 0)

		var zero breaker.Call
		zero.Succeed()
		zero.Fail(errDown)
		zero.Cancel()
	})
}

// D35. A wall clock cannot be stepped here; what can be held is that no time
// given out has lost its monotonic reading, and that the wall reading is today's.
func TestB10MonotonicTime(t *testing.T) {
	var changes []breaker.Change
	b := newBreaker(t, breaker.Config{OnChange: func(c breaker.Change) { changes = append(changes, c) }})
	before := time.Now()
	fail(t, b, 10)
	_, err := b.Allow()
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	for _, at := range []time.Time{open.Until, b.Stats().Until, changes[0].At, changes[0].Until} {
		require.Contains(t, at.String(), " m=")
	}
	require.WithinDuration(t, before.Round(0), changes[0].At.Round(0), time.Minute)
}

func TestB13OnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []breaker.Change
		b := newBreaker(t, breaker.Config{OnChange: func(c breaker.Change) { got = append(got, c) }})
		start := time.Now()
		at := func(s time.Duration) time.Time { return start.Add(s * time.Second) }
		equal := func(want ...breaker.Change) {
			t.Helper()
			require.Equal(t, want, got)
			got = nil
		}
		errTrial := errors.New("500 Internal Server Error")

		fail(t, b, 10)
		equal(breaker.Change{From: breaker.Closed, To: breaker.Open, At: at(0), Until: at(2), Delay: 2 * time.Second, Failures: 10, Cause: errDown})

		time.Sleep(3 * time.Second)
		b.State()
		equal() // the end of a pause is no change: the trial is
		trial := admit(t, b)
		equal(breaker.Change{From: breaker.Open, To: breaker.HalfOpen, At: at(3), Until: at(123), Delay: 2 * time.Second})
		trial.Fail(errTrial)
		equal(breaker.Change{From: breaker.HalfOpen, To: breaker.Open, At: at(3), Until: at(7), Delay: 4 * time.Second, Failures: 1, Cause: errTrial})

		time.Sleep(4 * time.Second)
		trial = admit(t, b)
		trial.Cancel()
		equal(
			breaker.Change{From: breaker.Open, To: breaker.HalfOpen, At: at(7), Until: at(127), Delay: 4 * time.Second},
			breaker.Change{From: breaker.HalfOpen, To: breaker.Open, At: at(7), Until: at(9), Delay: 2 * time.Second},
		)

		time.Sleep(2 * time.Second)
		fail(t, b, 1)
		equal(
			breaker.Change{From: breaker.Open, To: breaker.HalfOpen, At: at(9), Until: at(129), Delay: 2 * time.Second},
			breaker.Change{From: breaker.HalfOpen, To: breaker.Open, At: at(9), Until: at(17), Delay: 8 * time.Second, Failures: 2, Cause: errDown},
		)

		time.Sleep(8 * time.Second)
		succeed(t, b)
		equal(
			breaker.Change{From: breaker.Open, To: breaker.HalfOpen, At: at(17), Until: at(137), Delay: 8 * time.Second},
			breaker.Change{From: breaker.HalfOpen, To: breaker.Closed, At: at(17)},
		)
	})
}

// D56: the hook calls everything, and makes changes of its own.
func TestB13OnChangeMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *breaker.Breaker
		var seen []string
		inside := false
		b = newBreaker(t, breaker.Config{FailuresToEnterRecovery: 1, OnChange: func(c breaker.Change) {
			require.False(t, inside, "one at a time")
			inside = true
			defer func() { inside = false }()
			seen = append(seen, fmt.Sprint(c.From, ">", c.To))
			b.State()
			switch {
			case len(seen) == 1: // paused: nothing is lost if the hook waits, or takes the trial itself
				refused(t, b, breaker.Open, 2*time.Second)
				require.NoError(t, b.Wait(t.Context()))
				succeed(t, b)
			case len(seen) == 3: // closed again: fails at once
				fail(t, b, 1)
				require.Equal(t, breaker.Open, b.State())
			}
			b.Stats()
		}})
		fail(t, b, 1)
		require.Equal(t, []string{"closed>open", "open>half-open", "half-open>closed", "closed>open"}, seen)
		paused(t, b, 2*time.Second, 2*time.Second)
	})
}

func TestB13OnChangeRunsWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var mu sync.Mutex
		var seen []breaker.State
		b := newBreaker(t, breaker.Config{OnChange: func(c breaker.Change) {
			if c.From == breaker.Closed {
				<-release
			}
			mu.Lock()
			seen = append(seen, c.To)
			mu.Unlock()
		}})
		fail(t, b, 9)
		go fail(t, b, 1) // held in OnChange
		synctest.Wait()

		// Others are not held, and leave their changes to the one that is.
		paused(t, b, 2*time.Second, 2*time.Second)
		time.Sleep(2 * time.Second)
		succeed(t, b)
		closed(t, b, 0)
		require.Empty(t, seen)
		close(release)
		synctest.Wait()
		require.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}, seen)
	})
}

func TestB13PanicInOnChange(t *testing.T) {
	recovered := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		var seen []breaker.Change
		var panicOn breaker.State
		b := newBreaker(t, breaker.Config{OnChange: func(c breaker.Change) {
			seen = append(seen, c)
			if c.To == panicOn {
				panic(c.To)
			}
		}})

		panicOn = breaker.Open
		fail(t, b, 9)
		require.Equal(t, breaker.Open, recovered(func() { fail(t, b, 1) }), "reaches the caller of Fail")
		paused(t, b, 2*time.Second, 2*time.Second)

		panicOn = breaker.HalfOpen
		time.Sleep(2 * time.Second)
		require.Equal(t, breaker.HalfOpen, recovered(func() { _, _ = b.Allow() }), "reaches the caller of Allow")
		paused(t, b, 2*time.Second, 2*time.Second) // the trial was given back
		require.Len(t, seen, 3, "and that was delivered too")

		panicOn = breaker.Closed
		time.Sleep(2 * time.Second)
		trial := admit(t, b)
		require.Equal(t, breaker.Closed, recovered(trial.Succeed))
		trial.Cancel()
		closed(t, b, 0)
		require.Len(t, seen, 5)

		// Two changes come of one call: a trial that ran out of time, and the next
		// one. The panic in the first keeps neither from being delivered.
		panicOn = -1
		fail(t, b, 10)
		time.Sleep(2 * time.Second)
		admit(t, b)
		time.Sleep(time.Hour)
		panicOn = breaker.Open
		seen = nil
		require.NotNil(t, recovered(func() { _, _ = b.Allow() }))
		var to []breaker.State
		for _, c := range seen {
			to = append(to, c.To)
		}
		require.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Open}, to)
		require.Zero(t, seen[2].Failures, "the trial was given back")
	})
}

func TestB13GoexitInOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes int
		b := newBreaker(t, breaker.Config{OnChange: func(breaker.Change) { changes++; runtime.Goexit() }})
		go fail(t, b, 10)
		time.Sleep(2 * time.Second)
		go func() { _, _ = b.Allow() }()
		synctest.Wait()
		paused(t, b, 2*time.Second, 2*time.Second)
		require.Equal(t, 3, changes)
	})
}

func TestB15OpenError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		cause := fmt.Errorf("two\nlines: %w", errDown)
		for range 10 {
			call := admit(t, b)
			call.Fail(cause)
		}
		time.Sleep(500 * time.Millisecond)
		_, err := b.Allow()
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.NotErrorIs(t, err, errDown, "the call that is refused did not meet it")
		require.EqualError(t, err, "breaker: sending is paused for another 1.5s, because of: two lines: 503 Service Unavailable")
		var timeout interface{ Timeout() bool }
		require.False(t, errors.As(err, &timeout))
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open)
		require.Equal(t, cause, open.Cause)

		time.Sleep(time.Minute)
		require.Zero(t, open.Remaining(), "never negative")
		trial := admit(t, b)
		time.Sleep(time.Minute)
		_, err = b.Allow()
		require.EqualError(t, err, "breaker: sending is paused while a trial runs, for another 1m0s at most, because of: two lines: 503 Service Unavailable")
		trial.Fail(nil)
		_, err = b.Allow()
		require.ErrorAs(t, err, &open)
		require.Equal(t, cause, open.Cause, "the last one known")

		require.EqualError(t, &breaker.OpenError{}, "breaker: sending is paused for another 0s")
	})
}

func TestB16JitterOnlyShortens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shortened int
		var last breaker.Change
		b := newBreaker(t, breaker.Config{Jitter: 0.5, OnChange: func(c breaker.Change) { last = c }})
		fail(t, b, 10)
		for i := range 200 {
			require.Equal(t, min(2*time.Second<<min(i, 20), 300*time.Second), last.Delay, "growth goes by the unshortened delay")
			pause := last.Until.Sub(last.At)
			require.LessOrEqual(t, pause, last.Delay)
			require.GreaterOrEqual(t, pause, last.Delay/2)
			require.Equal(t, last.Delay, b.Stats().Delay)
			if pause < last.Delay*3/4 {
				shortened++
			}
			refused(t, b, breaker.Open, pause)
			time.Sleep(pause)
			fail(t, b, 1)
		}
		require.InDelta(t, 100, shortened, 60)
	})
}

func TestB18FailOfNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		for range 9 {
			b.Fail(errDown)
		}
		closed(t, b, 9)
		b.Fail(errDown)
		paused(t, b, 2*time.Second, 2*time.Second)
		time.Sleep(time.Second)
		b.Fail(errDown)
		paused(t, b, 2*time.Second, time.Second)
		time.Sleep(time.Second)
		b.Fail(errDown) // the pause is over, but no trial is there to decide
		require.Equal(t, breaker.HalfOpen, b.State())
		trial := admit(t, b)
		b.Fail(errDown)
		refused(t, b, breaker.HalfOpen, 2*time.Minute)
		trial.Succeed()
		closed(t, b, 0)
		require.Equal(t, uint64(10), b.Stats().Failed)
	})
}

func TestB17NoAllocation(t *testing.T) {
	b := newBreaker(t, breaker.Config{FailuresWindow: time.Nanosecond})
	allocs := func(what string, f func()) {
		t.Helper()
		require.Zero(t, testing.AllocsPerRun(100, f), what)
	}
	allocs("success", func() {
		call, _ := b.Allow()
		call.Succeed()
	})
	allocs("failure, after the first", func() {
		call, _ := b.Allow()
		call.Fail(errDown)
	})
	allocs("state", func() { b.State(); b.Stats() })
	b = newBreaker(t, breaker.Config{InitialRecoveryDelay: time.Hour})
	fail(t, b, 10)
	allocs("refusal", func() { _, _ = b.Allow() })
}

func TestStateString(t *testing.T) {
	require.Equal(t, "closed open half-open State(3)", strings.Trim(fmt.Sprint([]breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, 3}), "[]"))
}
