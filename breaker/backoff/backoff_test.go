package backoff_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker/backoff"
)

func ExampleExponential() {
	delays := backoff.Exponential{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Multiplier: 10}
	for failures := range 5 {
		fmt.Println(delays.Delay(failures))
	}
	// Output:
	// 0s
	// 100ms
	// 1s
	// 10s
	// 10s
}

func TestD1Delay(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, tt := range []struct {
		name string
		e    backoff.Exponential
		want []time.Duration // from n = 0
	}{
		{"zero value", backoff.Exponential{}, seconds(0, 1, 2, 4, 8, 16, 32, 60, 60)},
		{"the breaker's", backoff.Exponential{Initial: 2 * time.Second, Max: 300 * time.Second}, seconds(0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300)},
		{"does not grow", backoff.Exponential{Multiplier: 1}, seconds(0, 1, 1, 1)},
		{"grows slowly", backoff.Exponential{Multiplier: 1.1}, []time.Duration{0, 1e9, 1.1e9, 1.21e9, 1.331e9}},
		{"default Max below Initial", backoff.Exponential{Initial: time.Hour}, seconds(0, 3600, 3600)},
		{"longer than a float64 holds", backoff.Exponential{Initial: year + 1, Max: math.MaxInt64}, []time.Duration{0, year + 1}},
		{"the longest", backoff.Exponential{Initial: math.MaxInt64, Max: math.MaxInt64}, []time.Duration{0, math.MaxInt64, math.MaxInt64}},
		{"the shortest", backoff.Exponential{Initial: 1, Max: 3, Jitter: 0.999}, []time.Duration{0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, tt.e.Validate())
			for n, want := range tt.want {
				assert.Equal(t, want, tt.e.Delay(n), "Delay(%d)", n)
			}
			assert.Zero(t, tt.e.Delay(-1))
		})
	}
	assert.Equal(t, time.Minute, backoff.Exponential{}.Delay(math.MaxInt))
}

func seconds(s ...time.Duration) []time.Duration {
	for i := range s {
		s[i] *= time.Second
	}
	return s
}

func TestD1JitterOnlyShortens(t *testing.T) {
	e := backoff.Exponential{Jitter: 0.25}
	seen := map[time.Duration]bool{}
	for range 10_000 {
		d := e.Delay(100)
		require.LessOrEqual(t, d, time.Minute)
		require.GreaterOrEqual(t, d, 45*time.Second)
		seen[d/time.Second] = true
	}
	assert.Len(t, seen, 15, "all whole seconds from 45 to 59 occur") // 60 s itself is one in 15 billion
}

// A floor of zero once turned a growing delay into a hot loop for ever.
func TestD2NeverZero(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 0.5, 1, 2, 1e300}
	durations := []time.Duration{math.MinInt64, -1, 0, 1, time.Second, math.MaxInt64}
	for _, initial := range durations {
		for _, longest := range durations {
			for _, multiplier := range odd {
				for _, jitter := range odd {
					e := backoff.Exponential{Initial: initial, Max: longest, Multiplier: multiplier, Jitter: jitter}
					for _, n := range []int{1, 2, 3, 64, 1 << 20, math.MaxInt} {
						require.Positive(t, e.Delay(n), "%+v.Delay(%d)", e, n)
					}
				}
			}
		}
	}
}

func FuzzDelay(f *testing.F) {
	f.Add(int64(0), int64(0), 0.0, 0.0, 1)
	f.Add(int64(2e9), int64(300e9), 2.0, 0.1, 9)
	f.Add(int64(1), int64(math.MaxInt64), 1.0000001, 0.999999, math.MaxInt)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.MaxFloat64, math.NaN(), 2)
	f.Fuzz(func(t *testing.T, initial, longest int64, multiplier, jitter float64, n int) {
		e := backoff.Exponential{Initial: time.Duration(initial), Max: time.Duration(longest), Multiplier: multiplier, Jitter: jitter}
		d := e.Delay(n)
		if n <= 0 {
			require.Zero(t, d)
			return
		}
		require.Positive(t, d)
		if e.Max > 0 {
			require.LessOrEqual(t, d, e.Max)
		}
		if e.Validate() != nil {
			return
		}
		e.Jitter = 0
		full := e.Delay(n)
		require.LessOrEqual(t, d, full)
		require.GreaterOrEqual(t, float64(d), math.Floor(float64(full)*(1-jitter)))
		if e.Initial > 0 {
			require.Equal(t, e.Initial, e.Delay(1))
		}
		if n < math.MaxInt {
			require.GreaterOrEqual(t, e.Delay(n+1), full)
		}
	})
}

func TestD3Wait(t *testing.T) {
	var e backoff.Exponential
	t.Run("sleeps the delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, e.Wait(t.Context(), 3))
			assert.Equal(t, 4*time.Second, time.Since(start))
			require.NoError(t, e.Wait(t.Context(), 0))
			assert.Equal(t, 4*time.Second, time.Since(start))
		})
	})
	t.Run("ends with ctx", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			start := time.Now()
			require.Equal(t, cause, e.Wait(ctx, 100))
			assert.Equal(t, time.Second, time.Since(start))
			require.Equal(t, cause, e.Wait(ctx, 100), "ended before")
			require.Equal(t, cause, e.Wait(ctx, 0), "ended before, and nothing to wait for")
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
}

func TestD4Validate(t *testing.T) {
	require.NoError(t, backoff.Exponential{}.Validate())
	require.NoError(t, backoff.Exponential{Initial: 1, Max: 1, Multiplier: 1, Jitter: 0.999}.Validate())

	err := backoff.Exponential{Initial: -1, Max: 1, Multiplier: 0.5, Jitter: 1}.Validate()
	assert.EqualError(t, err, `backoff: Initial is -1ns; accepted: > 0, or 0 for 1s
backoff: Max is 1ns; accepted: >= Initial (1s), or 0 for the larger of 1m0s and Initial
backoff: Multiplier is 0.5; accepted: >= 1 and finite, or 0 for 2
backoff: Jitter is 1; accepted: >= 0 and < 1`)

	for _, odd := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		require.ErrorContains(t, backoff.Exponential{Multiplier: odd}.Validate(), fmt.Sprint("Multiplier is ", odd))
		require.ErrorContains(t, backoff.Exponential{Jitter: odd}.Validate(), fmt.Sprint("Jitter is ", odd))
	}
}

func TestD4Spread(t *testing.T) {
	for _, tt := range []struct {
		d           time.Duration
		fraction    float64
		least, most time.Duration
	}{
		{10, 0.1, 9, 11},
		{10, 0, 10, 10},
		{10, -1, 10, 10},
		{10, math.NaN(), 10, 10},
		{10, 1, 1, 20},
		{10, 7, 1, 20},
		{1, 1, 1, 2},
		{0, 0.1, 0, 0},
		{-5, 0.1, -5, -5},
		{math.MaxInt64, 0, math.MaxInt64, math.MaxInt64},
		{math.MaxInt64, 1, 1, math.MaxInt64},
	} {
		least, most := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
		for range 1000 {
			d := backoff.Spread(tt.d, tt.fraction)
			least, most = min(least, d), max(most, d)
		}
		assert.GreaterOrEqual(t, least, tt.least, "%+v", tt)
		assert.LessOrEqual(t, most, tt.most, "%+v", tt)
		if tt.d <= 10 { // few enough values for each to have come up
			assert.Equal(t, tt.least, least, "%+v", tt)
			assert.Equal(t, tt.most, most, "%+v", tt)
		}
	}
}

func FuzzSpread(f *testing.F) {
	f.Add(int64(1), 0.5)
	f.Add(int64(math.MaxInt64), 1.0)
	f.Add(int64(1)<<53+1, math.NaN())
	f.Fuzz(func(t *testing.T, n int64, fraction float64) {
		d := time.Duration(n)
		s := backoff.Spread(d, fraction)
		if d <= 0 {
			require.Equal(t, d, s)
			return
		}
		require.Positive(t, s)
		if fraction >= 0 && fraction <= 1 {
			require.GreaterOrEqual(t, float64(s), math.Floor(float64(d)*(1-fraction)))
			require.LessOrEqual(t, float64(s), math.Ceil(float64(d)*(1+fraction)))
		}
	})
}

func BenchmarkDelay(b *testing.B) {
	e := backoff.Exponential{Jitter: 0.1}
	b.ReportAllocs()
	for b.Loop() {
		e.Delay(5)
	}
}
