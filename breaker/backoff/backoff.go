// Package backoff computes delays that grow: after each failure in a row the
// next wait is longer, up to a ceiling, and never zero.
//
// [Exponential] is a value, and the number of failures is the caller's own
// loop variable, so there is nothing to share, reset or close:
//
//	var delays backoff.Exponential // 1 s, 2 s, 4 s ... 1 min
//	for failures := 1; attempt(ctx) != nil; failures++ {
//		if err := delays.Wait(ctx, failures); err != nil {
//			return err // ctx ended
//		}
//	}
//
// [Spread] is for cadences instead: it scatters a period around its mean, so
// that many clients do not act in step.
package backoff

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The settings that stand for zero fields of [Exponential].
const (
	defaultInitial    = time.Second
	defaultMax        = time.Minute
	defaultMultiplier = 2
)

// Exponential is a delay that grows by a factor with each failure in a row, up
// to a ceiling. The zero value is ready to use: 1 s, 2 s, 4 s ... 1 min,
// without jitter. It is a plain value, safe for concurrent use.
//
// No value of the struct, valid or not, gives a delay of zero: a delay that
// starts from zero would never grow, and the loop that relies on it would spin.
// Where settings come from outside, call [Exponential.Validate]; the other
// methods read a field outside its range as its default, and a Max below
// Initial as the only delay.
type Exponential struct {
	// Initial is the delay after the first failure. Above 0; zero means 1 s.
	Initial time.Duration
	// Max is the ceiling that no delay passes, jitter included. At least
	// Initial; zero means the larger of 1 min and Initial.
	Max time.Duration
	// Multiplier is the growth from one delay to the next. At least 1, and
	// finite; zero means 2.
	Multiplier float64
	// Jitter is the largest part of a delay that chance takes away: a delay d
	// lasts between d x (1 - Jitter) and d. At least 0 and below 1.
	Jitter float64
}

// Delay returns the delay after n failures in a row: 0 if n is not positive,
// Initial for 1, and from there Multiplier times more with each failure, rounded
// to what a float64 holds (nanoseconds, up to some hundred days), at most Max. For
// a positive n it is positive.
func (e Exponential) Delay(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	e = e.withDefaults()
	d := e.Max
	// Growth is worked out in floating point, where nothing overflows: +Inf too
	// is just not below the room that there is.
	growth := math.Round(float64(e.Initial) * (math.Pow(e.Multiplier, float64(n-1)) - 1))
	if growth < float64(e.Max-e.Initial) {
		d = e.Initial + time.Duration(growth)
	}
	return max(d-upTo(part(d, e.Jitter)), 1)
}

// Wait sleeps for Delay(n). It returns nil after that, or [context.Cause] of
// ctx as soon as ctx ends, also where it has ended already. It leaves no timer
// behind.
func (e Exponential) Wait(ctx context.Context, n int) error {
	d := e.Delay(n)
	if d == 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Validate reports every field that is outside its range, joined in one error,
// each with the field, its value and what is accepted.
func (e Exponential) Validate() error {
	var faults []error
	refuse := func(field string, value any, accepted string) {
		faults = append(faults, fmt.Errorf("backoff: %s is %v; accepted: %s", field, value, accepted))
	}
	if e.Initial < 0 {
		refuse("Initial", e.Initial, "> 0, or 0 for 1s")
	}
	if initial := e.withDefaults().Initial; e.Max != 0 && e.Max < initial {
		refuse("Max", e.Max, fmt.Sprintf(">= Initial (%v), or 0 for the larger of 1m0s and Initial", initial))
	}
	if e.Multiplier != 0 && !validMultiplier(e.Multiplier) {
		refuse("Multiplier", e.Multiplier, ">= 1 and finite, or 0 for 2")
	}
	if !validJitter(e.Jitter) {
		refuse("Jitter", e.Jitter, ">= 0 and < 1")
	}
	return errors.Join(faults...)
}

func (e Exponential) withDefaults() Exponential {
	if e.Initial <= 0 {
		e.Initial = defaultInitial
	}
	if e.Max <= 0 {
		e.Max = max(defaultMax, e.Initial)
	}
	if !validMultiplier(e.Multiplier) {
		e.Multiplier = defaultMultiplier
	}
	if !validJitter(e.Jitter) {
		e.Jitter = 0
	}
	return e
}

// Both are false for NaN, which a comparison the other way round would let pass.
func validMultiplier(m float64) bool { return m >= 1 && !math.IsInf(m, 1) }
func validJitter(j float64) bool     { return j >= 0 && j < 1 }

// Spread returns a duration chosen evenly from d x (1 - fraction) to
// d x (1 + fraction), at least 1 ns, to scatter a period around its mean: unlike
// the jitter of [Exponential] it also lengthens. A d that is not positive is
// returned as it is. The fraction is from 0 to 1; one below 0, or not a number,
// counts as 0, one above 1 as 1.
func Spread(d time.Duration, fraction float64) time.Duration {
	if d <= 0 {
		return d
	}
	if !(fraction >= 0) {
		fraction = 0
	}
	half := part(d, min(fraction, 1))
	// Unsigned, the sum of two durations cannot overflow.
	spread := uint64(d-half) + rand.Uint64N(2*uint64(half)+1)
	return time.Duration(min(max(spread, 1), math.MaxInt64))
}

// part returns the given fraction, from 0 to 1, of a positive d: at most d,
// also where rounding would carry it further.
func part(d time.Duration, fraction float64) time.Duration {
	if p := float64(d) * fraction; p < float64(d) {
		return time.Duration(p)
	}
	return d
}

// upTo returns a duration chosen evenly from 0 to d, both included.
func upTo(d time.Duration) time.Duration {
	return time.Duration(rand.Uint64N(uint64(d) + 1))
}
